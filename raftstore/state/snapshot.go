package state

import (
	"fmt"
	"io"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/command"
)

// snapshotVersion is the version of the stream that Save writes.
const snapshotVersion = 3

// header opens a snapshot. The sections follow in its order, so that a truncated stream is
// noticed.
type header struct {
	Version int             `cbor:"1,keyasint"`
	Index   uint64          `cbor:"2,keyasint"`
	Now     api.Instant     `cbor:"3,keyasint"`
	Zone    api.ZoneID      `cbor:"4,keyasint"`
	Name    string          `cbor:"5,keyasint"`
	Config  api.ZoneConfig  `cbor:"6,keyasint"`
	CA      []byte          `cbor:"7,keyasint"`
	CAKey   []byte          `cbor:"8,keyasint"`
	Epochs  []command.Epoch `cbor:"9,keyasint"`
	Upload  *upload         `cbor:"21,keyasint,omitempty"`
	KEK     []byte          `cbor:"22,keyasint,omitempty"` // from api.FormFifth
	KEKDue  uint64          `cbor:"23,keyasint,omitempty"` // from api.FormFifth
	Change  *CAChange       `cbor:"24,keyasint,omitempty"` // from api.FormFifth
	CADue   uint64          `cbor:"25,keyasint,omitempty"` // from api.FormFifth

	Incarnation api.Incarnation `cbor:"26,keyasint,omitempty"` // from api.FormFifth

	Form     api.Form        `cbor:"28,keyasint,omitempty"` // the newest form of any entry in the state
	Sections []sectionHeader `cbor:"29,keyasint,omitempty"`
}

// sectionHeader has the number of records of a section and their form.
type sectionHeader struct {
	Name  string   `cbor:"1,keyasint"`
	Form  api.Form `cbor:"2,keyasint"`
	Count int      `cbor:"3,keyasint"`
}

// section saves and loads the records of one table.
type section struct {
	name  string
	form  api.Form // that introduced its layout
	begin func() (count int, save func(e codec.Encoder) error)
	read  func(d codec.Decoder) (record any, err error)
	store func(record any)
}

// sectionOf returns a section of the records that all returns; store loads one record.
func sectionOf[S, L any](name string, all func() []S, store func(*L)) section {
	return section{
		name: name, form: api.FormFirst,
		begin: func() (int, func(codec.Encoder) error) {
			records := all()
			return len(records), func(e codec.Encoder) error {
				for _, r := range records {
					if err := e.Encode(r); err != nil {
						return err
					}
				}
				return nil
			}
		},
		read: func(d codec.Decoder) (any, error) {
			r := new(L)
			if err := d.Decode(r); err != nil {
				return nil, fmt.Errorf("reading %s of a snapshot: %w", name, err)
			}
			return r, nil
		},
		store: func(record any) { store(record.(*L)) }, //nolint:forcetypeassert // read has made it
	}
}

// sections lists the sections of a snapshot in the order in which they are loaded: a record
// comes after those that it refers to. Indexes and the host table are rebuilt.
func (s *State) sections() []section {
	return append(s.auditBook.sections(),
		sectionOf("upload", s.upload.arrivedParts, func(part *[]byte) { s.upload.addPart(*part) }))
}

// Save writes the whole state as a stream of items. Equal states give equal
// bytes. Indexes and the host table are not written: Load rebuilds them.
func (s *State) Save(w io.Writer) error {
	e := codec.NewEncoder(w)
	h := header{
		Version: snapshotVersion, Index: s.index, Now: s.now, Zone: s.Zone, Name: s.Name, Config: s.Config,
		CA: s.CA, CAKey: s.CAKey, Epochs: s.Epochs, Upload: s.upload, KEK: s.KEK, KEKDue: s.KEKDue, Change: s.Change, CADue: s.CADue, Incarnation: s.Incarnation, Form: s.form,
	}
	var saves []func(codec.Encoder) error
	for _, one := range s.sections() {
		if one.form > s.form { // it is empty, and older nodes do not know it
			continue
		}
		count, save := one.begin()
		h.Sections = append(h.Sections, sectionHeader{Name: one.name, Form: one.form, Count: count})
		saves = append(saves, save)
	}
	if err := e.Encode(h); err != nil {
		return err
	}
	for _, save := range saves {
		if err := save(e); err != nil {
			return err
		}
	}
	return nil
}

// NewerFormError is returned by Load for a snapshot that this node is too old to read.
type NewerFormError struct{ Form, Newest api.Form }

// Error implements error.
func (e *NewerFormError) Error() string {
	return fmt.Sprintf("the snapshot is of form %d, and this node reads forms up to %d", e.Form, e.Newest)
}

// Load reads what Save wrote, in forms up to newest, into a new state. A stream that is
// truncated, malformed, or of another version or form is an error, and so is one with a record that
// refers to what is not there, as far as an index needs it.
func Load(r io.Reader, newest api.Form) (*State, error) {
	return LoadAhead(r, newest, func(read func() (any, error)) (func() (any, error), func()) { return read, func() {} })
}

// Ahead returns a function that returns what read does, one result after the other until the first
// error, and may call read before it is asked to. It does not call it any more when stop has returned.
type Ahead func(read func() (any, error)) (next func() (any, error), stop func())

// LoadAhead is Load with records that are read ahead: to read one needs nothing of the state.
func LoadAhead(r io.Reader, newest api.Form, ahead Ahead) (s *State, err error) {
	defer func() {
		if p := recover(); p != nil { // records of a sound snapshot agree, so loading does not compare them
			s, err = nil, fmt.Errorf("a record of the snapshot contradicts others: %v", p)
		}
	}()
	d := codec.NewDecoder(r)
	var h header
	if err = d.Decode(&h); err != nil {
		return nil, fmt.Errorf("reading the snapshot's header: %w", err)
	}
	switch {
	case h.Version != snapshotVersion:
		return nil, fmt.Errorf("snapshot version %d is unknown; this node reads version %d alone", h.Version, snapshotVersion)
	case h.Form > newest:
		return nil, &NewerFormError{h.Form, newest}
	}
	s = New()
	s.index, s.now, s.form, s.limits = h.Index, h.Now, max(h.Form, api.FormFirst), limitsAt(h.Form)
	s.Zone, s.Name, s.Config, s.CA, s.CAKey, s.Epochs, s.upload = h.Zone, h.Name, h.Config, h.CA, h.CAKey, h.Epochs, h.Upload
	s.KEK, s.KEKDue, s.Change, s.CADue, s.Incarnation = h.KEK, h.KEKDue, h.Change, h.CADue, h.Incarnation
	s.hostTable.Advance(h.Now)
	if err = s.loadSections(d, h.Sections, newest, ahead); err != nil {
		return nil, err
	}
	s.loading = nil
	s.indexEnded()
	s.allocateWithin()
	s.setGenerations()
	s.hideLayout()
	return s, nil
}

// loadSections loads the sections of a snapshot.
func (s *State) loadSections(d codec.Decoder, headers []sectionHeader, newest api.Form, ahead Ahead) error {
	known := map[string]section{}
	for _, one := range s.sections() {
		known[one.name] = one
	}
	sections := make([]section, 0, len(headers))
	for _, h := range headers {
		one, ok := known[h.Name]
		if !ok || h.Form > newest {
			return fmt.Errorf("section %q of form %d is unknown; this node is older than the snapshot", h.Name, h.Form)
		}
		delete(known, h.Name)
		sections = append(sections, one)
	}
	at, done := 0, 0 // of what is read ahead
	next, stop := ahead(func() (any, error) {
		for at < len(headers) && done >= headers[at].Count {
			at, done = at+1, 0
		}
		if at == len(headers) {
			return nil, io.EOF
		}
		done++
		return sections[at].read(d)
	})
	defer stop()
	for i, h := range headers {
		for range h.Count {
			record, err := next()
			if err != nil {
				return err
			}
			sections[i].store(record)
		}
	}
	return nil
}
