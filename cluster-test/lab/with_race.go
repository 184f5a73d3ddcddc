//go:build race

package lab

func init() { buildFlags = append(buildFlags, "-race") }
