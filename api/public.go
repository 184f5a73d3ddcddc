package api

// PublicAttributesMax is how many attributes the operator of a zone may make public.
const PublicAttributesMax = 64

// ValidatePublicAttributes returns an invalid-input error for a list of public attributes that no zone could
// have: too long, with a name that no attribute has, or with one twice.
func ValidatePublicAttributes(names []string) error {
	if len(names) > PublicAttributesMax {
		return Errorf(CodeInvalid, "at most %d public attributes are allowed, got %d", PublicAttributesMax, len(names))
	}
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case name == "" || len(name) > ExtraSpecMaxBytes:
			return Errorf(CodeInvalid, "the name of an attribute must be 1 to %d bytes, got %q", ExtraSpecMaxBytes, name)
		case seen[name]:
			return Errorf(CodeInvalid, "attribute %q is in the list twice", name)
		}
		seen[name] = true
	}
	return nil
}

// RoundUp rounds an amount up to three leading binary digits: so exact is what a zone tells others of its
// hosts. Nothing that is there is hidden by it. Amounts above 2^60 stay.
func RoundUp(n int64) int64 { return (n + roundingStep(n) - 1) / roundingStep(n) * roundingStep(n) }

// RoundDown rounds an amount down to three leading binary digits.
func RoundDown(n int64) int64 { return n / roundingStep(n) * roundingStep(n) }

// RoundUpToPower rounds a count up to a power of two: so exact are counts of hosts in answers to other zones.
func RoundUpToPower(n int64) int64 {
	if n <= 0 {
		return 0
	}
	p := int64(1)
	for p < n && p < 1<<62 {
		p *= 2
	}
	return p
}

// roundingStep returns the distance between neighbours of n that have three leading binary digits.
func roundingStep(n int64) int64 {
	s := int64(1)
	if n > 1<<60 {
		return s
	}
	for n/s >= 8 {
		s *= 2
	}
	return s
}
