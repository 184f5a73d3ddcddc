package rest

import (
	"slices"
	"strings"

	"berth/api"
)

// LogLevel is the lowest level that a process logs: one of LogLevels.
type LogLevel struct {
	Level string `json:"level"`
}

// LogLevels are the names of all levels, the lowest first.
var LogLevels = []string{"debug", "info", "warn", "error"}

// Parse returns the level as a number that rises by 4 from debug, which is -4, or an invalid-input error.
func (l LogLevel) Parse() (int, error) {
	i := slices.Index(LogLevels, l.Level)
	if i < 0 {
		return 0, api.Errorf(api.CodeInvalid, "level must be one of %s, not %q", strings.Join(LogLevels, ", "), l.Level)
	}
	return 4*i - 4, nil
}
