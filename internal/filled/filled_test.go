package filled

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

type part struct {
	Name string
	Deep *part
}

type whole struct {
	Text  string
	Other string
	Count int
	Flag  bool
	Ratio float64
	Sum   [2]byte
	Parts []part
	Named map[string]part
	One   *part
	own   int
}

// TestOf: nothing of a filled struct is zero but what would be endless, and no two texts are equal.
func TestOf(t *testing.T) {
	got := Of[whole]()
	assert.Zero(t, got.own)
	assert.Equal(t, []string{"One.Deep", "Parts.Deep"}, Zero(got))
	assert.NotEqual(t, got.Text, got.Other)
	assert.NotEmpty(t, got.Named)
}

// TestZero: each field that is zero is named once, and nothing within it.
func TestZero(t *testing.T) {
	assert.Equal(t, []string{"Count", "Flag", "Named", "One", "Other", "Parts", "Ratio", "Sum", "Text"}, Zero(whole{}))
	got := Of[whole]()
	got.Parts = append(got.Parts, part{}, part{})
	got.Sum = [2]byte{}
	assert.Equal(t, []string{"One.Deep", "Parts.Deep", "Parts.Name", "Sum"}, Zero(&got))
}
