package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/api"
)

// The journal's files in the agent's folder, and the size at which the first is renamed
// to the second.
const (
	journalFile     = "journal"
	journalOldFile  = "journal.1"
	journalMaxBytes = 16 << 20
)

// Events of the journal.
const (
	eventTerm    = "term"    // a higher term has been seen
	eventRefused = "refused" // an answer of a lower term was refused
	eventStart   = "start"   // a start begins
	eventRunning = "running" // it runs
	eventFailed  = "failed"  // it could not be started
	eventEnded   = "ended"   // it ended by itself
	eventStop    = "stop"    // a stop begins
	eventGone    = "gone"    // nothing of it is left
	eventAbsent  = "absent"  // it is to be stopped, and is not here: an earlier agent ended before it ran
	eventHalt    = "halt"    // its owner has it stopped, or run again: a soft stop that keeps what it has begins
	eventHalted  = "halted"  // nothing of it runs
	eventOrdered = "ordered" // its owner has ordered the run that begins, whose number it has
	eventNotice  = "notice"  // it is told that it must leave
	eventKilled  = "killed"  // its notice is over: a hard stop begins
	eventFenced  = "fenced"  // its fence has expired: a hard stop begins, and it may start again
)

// line is one line of the journal, in JSON.
type line struct {
	At       time.Time      `json:"at"`
	Term     uint64         `json:"term"`
	Event    string         `json:"event"`
	Host     api.HostID     `json:"host,omitempty"`
	Instance api.InstanceID `json:"instance,omitempty"`
	Detail   string         `json:"detail,omitempty"`
}

// journal records the actions of the agent in order, for people and checkers. Lines
// survive the agent, but a power cut may lose the last ones. Without a folder nothing is
// written. It may be used from several goroutines.
type journal struct {
	root *os.Root // nil: nothing is written
	now  func() time.Time
	log  *slog.Logger
	max  int64

	mu   sync.Mutex // guards the file: lines must not mix
	file *os.File
	size int64
	text []byte // of the last line, to be used again
	bad  bool   // the last write failed, and that was logged
}

func openJournal(root *os.Root, now func() time.Time, log *slog.Logger) (*journal, error) {
	j := &journal{root: root, now: now, log: log, max: journalMaxBytes}
	if root == nil {
		return j, nil
	}
	if err := j.openFile(); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return j, nil
}

func (j *journal) openFile() error {
	file, err := j.root.OpenFile(journalFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.size = file, size
	return nil
}

// writeLine adds one line. A failure is only a warning, not a reason to stop serving
// instances.
func (j *journal) writeLine(l line) {
	if j.root == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	l.At = j.now().UTC()
	err := j.appendLine(l)
	if err != nil && !j.bad {
		j.log.Warn("journal cannot be written", "err", err)
	}
	j.bad = err != nil
}

func (j *journal) appendLine(l line) error {
	j.text = append(l.appendJSON(j.text[:0]), '\n')
	if j.file == nil || j.size+int64(len(j.text)) > j.max {
		if err := j.turnFile(); err != nil {
			return err
		}
	}
	n, err := j.file.Write(j.text)
	j.size += int64(n)
	return err
}

// appendJSON appends l to b as encoding/json spells it, in a fifth of the time: there are two
// lines for each instance that starts.
func (l line) appendJSON(b []byte) []byte {
	b = append(b, `{"at":"`...)
	b = l.At.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","term":`...)
	b = strconv.AppendUint(b, l.Term, 10)
	b = appendText(b, "event", l.Event)
	if l.Host != "" {
		b = appendText(b, "host", string(l.Host))
	}
	if l.Instance != "" {
		b = appendText(b, "instance", string(l.Instance))
	}
	if l.Detail != "" {
		b = appendText(b, "detail", l.Detail)
	}
	return append(b, '}')
}

// appendText appends a further field of an object, with a text.
func appendText(b []byte, name, text string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	if strings.ContainsFunc(text, needsEscape) {
		quoted, _ := json.Marshal(text) // a text can always be quoted
		return append(b, quoted...)
	}
	return append(append(append(b, '"'), text...), '"')
}

// needsEscape reports whether encoding/json may not write r as it is.
func needsEscape(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
}

// turnFile renames the file and opens an empty one.
func (j *journal) turnFile() error {
	if err := j.closeFile(); err != nil {
		return err
	}
	if err := j.root.Rename(journalFile, journalOldFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return j.openFile()
}

// closeFile closes the file; a later line opens it again.
func (j *journal) closeFile() error {
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file = nil
	return file.Close()
}
