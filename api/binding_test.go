package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestBindingKey(t *testing.T) {
	tags := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("key%d=value", i))
		}
		return out
	}
	for name, c := range map[string]struct {
		key api.BindingKey
		bad string
	}{
		"general":          {api.BindingKey{}, ""},
		"az and tags":      {api.BindingKey{AZ: "az1", Tags: []string{"disk=fast", "resource=CAD"}}, ""},
		"the most tags":    {api.BindingKey{Tags: tags(api.BindingTagsMax)}, ""},
		"a tag more":       {api.BindingKey{Tags: tags(api.BindingTagsMax + 1)}, "at most 8 affinity tags, got 9"},
		"no pair":          {api.BindingKey{Tags: []string{"CAD"}}, `key=value, got "CAD"`},
		"no value":         {api.BindingKey{Tags: []string{"resource="}}, "key=value"},
		"no key":           {api.BindingKey{Tags: []string{"=CAD"}}, "key=value"},
		"a text":           {api.BindingKey{Tags: []string{"resource=CAD Modeling, 3D = größer"}}, ""},
		"a scope":          {api.BindingKey{Tags: []string{"affinity:resource=CAD"}}, ""},
		"a long text":      {api.BindingKey{Tags: []string{"resource=" + strings.Repeat("x", api.NameMaxBytes)}}, ""},
		"a longer text":    {api.BindingKey{Tags: []string{"resource=" + strings.Repeat("x", api.NameMaxBytes+1)}}, "the value of an affinity tag"},
		"a line in it":     {api.BindingKey{Tags: []string{"resource=a\nb"}}, "without control characters"},
		"a space after it": {api.BindingKey{Tags: []string{"resource=a "}}, "spaces at its ends"},
		"no text":          {api.BindingKey{Tags: []string{"resource=\xff"}}, "the value of an affinity tag"},
		"a key of a space": {api.BindingKey{Tags: []string{"a b=CAD"}}, "the key of an affinity tag"},
		"not sorted":       {api.BindingKey{Tags: []string{"b=1", "a=1"}}, "sorted"},
		"twice":            {api.BindingKey{Tags: []string{"a=1", "a=1"}}, "sorted and different"},
		"an AZ of a space": {api.BindingKey{AZ: " "}, "availability zone"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.key.Validate()
			if c.bad == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.bad)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		})
	}
	assert.NotEqual(t, api.BindingKey{AZ: "a=1"}.String(), api.BindingKey{Tags: []string{"a=1"}}.String())
}
