//go:build chaos

package lab

func init() { buildTags = append(buildTags, "chaos") }
