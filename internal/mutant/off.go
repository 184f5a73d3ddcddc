//go:build !mutants

package mutant

// On reports false: this binary holds no fault.
func On(Name) bool { return false }

// Clock is not called in this binary.
func Clock() int64 { return 0 }

// Shuffled is not called in this binary.
func Shuffled[T any](s []T) []T { return s }
