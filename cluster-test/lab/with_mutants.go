//go:build mutants

package lab

func init() { buildTags = append(buildTags, "mutants") }
