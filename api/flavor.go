package api

import (
	"maps"
	"slices"
	"strings"
)

// Flavor is a named shape of an instance. Operators define flavors; a caller only names
// one. The process driver runs Command, which no caller can set.
type Flavor struct {
	ID         FlavorID          `cbor:"1,keyasint"` // value of flavorRef
	Name       string            `cbor:"2,keyasint"`
	Resources  Resources         `cbor:"3,keyasint"`
	ExtraSpecs map[string]string `cbor:"4,keyasint,omitempty"`
	Command    []string          `cbor:"5,keyasint,omitempty"` // words; [0] is the program's path
	Created    Instant           `cbor:"6,keyasint,omitempty"`
}

// Validate returns an invalid-input error for the first invalid field.
func (f Flavor) Validate() error {
	if err := CheckName("flavor name", f.Name); err != nil {
		return err
	}
	if len(f.Resources) == 0 {
		return Errorf(CodeInvalid, "a flavor needs at least one resource, such as vcpus")
	}
	if err := f.Resources.Validate(); err != nil {
		return err
	}
	if err := CheckPairs("extra_specs", f.ExtraSpecs, ExtraSpecsMax); err != nil {
		return err
	}
	if err := checkOwnSpecs(f.ExtraSpecs); err != nil {
		return err
	}
	if len(f.Command) > 0 && f.Command[0] == "" {
		return Errorf(CodeInvalid, "command must begin with the path of a program")
	}
	if len(f.Command) > CommandArgsMax {
		return Errorf(CodeInvalid, "command may have at most %d words, got %d", CommandArgsMax, len(f.Command))
	}
	size := 0
	for _, w := range f.Command {
		size += len(w)
	}
	if size > CommandMaxBytes {
		return Errorf(CodeInvalid, "command may have at most %d bytes, got %d", CommandMaxBytes, size)
	}
	return nil
}

// Extra specs of Berth's own start with specPrefix. SpecEvacuate is "true" for instances
// that may be started on another host if theirs is lost.
const (
	specPrefix   = "berth:"
	SpecEvacuate = specPrefix + "evacuate"
)

// checkOwnSpecs refuses unknown extra specs with Berth's prefix.
func checkOwnSpecs(specs map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(specs)) {
		switch v := specs[k]; {
		case !strings.HasPrefix(k, specPrefix):
		case k != SpecEvacuate:
			return Errorf(CodeInvalid, "there is no extra spec %q; those that begin with %s are %s", k, specPrefix, SpecEvacuate)
		case v != "true" && v != "false":
			return Errorf(CodeInvalid, "extra spec %s must be true or false, got %q", k, v)
		}
	}
	return nil
}

// CheckPairs returns an invalid-input error unless m has at most limit pairs and
// each key is 1 to ExtraSpecMaxBytes bytes and each value at most as many.
func CheckPairs(field string, m map[string]string, limit int) error {
	if len(m) > limit {
		return Errorf(CodeInvalid, "%s may have at most %d entries, got %d", field, limit, len(m))
	}
	for k := range maps.Keys(m) {
		if k == "" || len(k) > ExtraSpecMaxBytes || len(m[k]) > ExtraSpecMaxBytes {
			return Errorf(CodeInvalid, "%s: keys must be 1 to %d bytes and values at most %d", field, ExtraSpecMaxBytes, ExtraSpecMaxBytes)
		}
	}
	return nil
}
