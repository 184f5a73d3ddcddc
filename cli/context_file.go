package cli

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"berth/internal/durable"
)

// contextsMax is how many contexts a file may have.
const contextsMax = 1000

// contextName is what a context may be called.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Keys of the file above those of a zone.
const (
	keyContext  = "context"
	keyContexts = "contexts"
)

// settingsFile is the file of settings: those of one zone by themselves, and of others by the name of a context.
type settingsFile struct {
	path     string            // "" if the environment does not say where it is
	own      map[string]string // by key
	current  string            // name of a context, "" for none
	contexts map[string]map[string]string
	doc      yaml.MapSlice // as it is written
	comments yaml.CommentMap
}

// settingsPath returns the path of the file of settings, "" if the environment does not say where it is.
func (e *env) settingsPath() string {
	dir := e.getenv("XDG_CONFIG_HOME")
	if home := e.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "berth", "config.yaml")
}

// readSettingsFile reads the file. A missing file is empty; an unknown key is an error.
func (e *env) readSettingsFile() (*settingsFile, error) {
	f := &settingsFile{path: e.settingsPath(), own: map[string]string{}, contexts: map[string]map[string]string{}, comments: yaml.CommentMap{}}
	if f.path == "" {
		return f, nil
	}
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	var given map[string]any
	if err == nil {
		err = yaml.Unmarshal(text, &given)
	}
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, &f.doc, yaml.UseOrderedMap(), yaml.CommentToMap(f.comments))
	}
	if err != nil { // without quoting the wrong line, which may hold the token
		return nil, exitError(exitUsage, seeSettings, "reading %s: %s", f.path, yaml.FormatError(err, false, false))
	}
	s := map[string]string{}
	flattenSettings(s, "", given)
	secret := false
	for _, key := range slices.Sorted(maps.Keys(s)) {
		secret = secret || s[key] != "" && (key == "token" || strings.HasSuffix(key, ".token"))
		if !f.take(key, s[key]) {
			return nil, exitError(exitUsage, seeSettings, "%s: unknown setting %q", f.path, key)
		}
	}
	if info, err := os.Stat(f.path); err == nil && secret && info.Mode().Perm()&0o077 != 0 {
		return nil, exitError(exitUsage, "chmod 600 "+f.path, "%s holds a token, and other users can read it", f.path)
	}
	return f, nil
}

// take sets a setting of the file, and reports whether there is one with that key.
func (f *settingsFile) take(key, value string) bool {
	parts := strings.Split(key, ".")
	switch {
	case len(parts) == 1 && slices.Contains(settingKeys, key):
		f.own[key] = value
	case key == keyContext:
		f.current = value
	case key == keyContexts && value == "": // none
	case len(parts) == 2 && parts[0] == keyContexts && contextName.MatchString(parts[1]) && value == "": // without settings
		f.contexts[parts[1]] = map[string]string{}
	case len(parts) == 3 && parts[0] == keyContexts && contextName.MatchString(parts[1]) && slices.Contains(settingKeys, parts[2]):
		if f.contexts[parts[1]] == nil {
			f.contexts[parts[1]] = map[string]string{}
		}
		f.contexts[parts[1]][parts[2]] = value
	default:
		return false
	}
	return true
}

// find returns the settings of a context.
func (f *settingsFile) find(name string) (map[string]string, error) {
	s, ok := f.contexts[name]
	if !ok {
		return nil, exitError(exitNotFound, "see: berth context list", "there is no context %q", name)
	}
	return s, nil
}

// put adds a context, or replaces it.
func (f *settingsFile) put(name string, s map[string]string) error {
	if _, known := f.contexts[name]; !known && len(f.contexts) >= contextsMax {
		return exitError(exitUsage, "berth context remove those that you do not use", "there are %d contexts, and there may be no more", len(f.contexts))
	}
	f.contexts[name] = s
	var its yaml.MapSlice
	for _, key := range settingKeys {
		if s[key] != "" {
			its = append(its, yaml.MapItem{Key: key, Value: s[key]})
		}
	}
	all, _ := valueIn(f.doc, keyContexts).(yaml.MapSlice)
	f.doc = withValue(f.doc, keyContexts, withValue(all, name, its))
	return nil
}

// use makes a context the current one; "" makes it none.
func (f *settingsFile) use(name string) {
	f.current, f.doc = name, withValue(f.doc, keyContext, name)
}

// remove removes a context.
func (f *settingsFile) remove(name string) {
	delete(f.contexts, name)
	all, _ := valueIn(f.doc, keyContexts).(yaml.MapSlice)
	f.doc = withValue(f.doc, keyContexts, slices.DeleteFunc(all, func(i yaml.MapItem) bool { return i.Key == name }))
	if f.current == name {
		f.use("")
	}
}

// write writes the file, for its owner alone.
func (f *settingsFile) write() error {
	if f.path == "" {
		return exitError(exitUsage, seeSettings, "neither XDG_CONFIG_HOME nor HOME is set, so there is no place for the settings")
	}
	text, err := yaml.MarshalWithOptions(f.doc, yaml.WithComment(f.comments))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.path), 0o700)
	}
	if err == nil {
		err = durable.ReplaceFile(f.path, 0o600, text)
	}
	return err
}

// valueIn returns the value of a key, nil for none.
func valueIn(m yaml.MapSlice, key string) any {
	for _, i := range m {
		if i.Key == key {
			return i.Value
		}
	}
	return nil
}

// withValue returns m with another value of a key, at its place, or at the end.
func withValue(m yaml.MapSlice, key string, value any) yaml.MapSlice {
	m = slices.Clone(m)
	for n := range m {
		if m[n].Key == key {
			m[n].Value = value
			return m
		}
	}
	return append(m, yaml.MapItem{Key: key, Value: value})
}
