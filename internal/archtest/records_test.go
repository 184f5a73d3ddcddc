package archtest

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// bothSpellings are the types that are JSON and CBOR at once: a refusal has one shape at
// every door.
var bothSpellings = map[string]bool{"ErrorBody": true, "ErrorDetail": true}

// TestNoRecordIsABody: what the log or another zone reads is never written as JSON, so
// that the public JSON can change without them. See api/rest.
func TestNoRecordIsABody(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			for name, d := range structsOf(f) {
				var spellings []string
				for _, field := range d.Fields.List {
					if field.Tag != nil {
						spellings = append(spellings, field.Tag.Value)
					}
				}
				tags := strings.Join(spellings, " ")
				both := strings.Contains(tags, "json:") && strings.Contains(tags, "cbor:")
				assert.True(t, !both || bothSpellings[name], "%s: %s has tags of JSON and of CBOR: make a body of its own in api/rest", f.name, name)
			}
		}
	}
}

func structsOf(f file) map[string]*ast.StructType {
	out := map[string]*ast.StructType{}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok {
			if t, ok := s.Type.(*ast.StructType); ok {
				out[s.Name.Name] = t
			}
		}
		return true
	})
	return out
}
