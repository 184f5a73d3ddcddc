package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/itchyny/gojq"
)

// checkQuery refuses an expression of --jq that is not one.
func (e *env) checkQuery() error {
	if e.jq == "" {
		return nil
	}
	_, err := compileQuery(e.jq)
	return err
}

func compileQuery(text string) (*gojq.Code, error) {
	q, err := gojq.Parse(text)
	if err == nil {
		var c *gojq.Code
		if c, err = gojq.Compile(q); err == nil {
			return c, nil
		}
	}
	return nil, exitError(exitUsage, "see: https://jqlang.org/manual", "--jq: %w", err)
}

// printQuery writes what the expression of --jq finds in an answer: texts as they are, and all else as JSON.
func (e *env) printQuery(body []byte) error {
	c, err := compileQuery(e.jq)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // gojq reads them without loss
	var v any
	if err = d.Decode(&v); err != nil {
		return fmt.Errorf("reading the answer for --jq: %w", err)
	}
	var out bytes.Buffer
	for found := c.Run(v); ; {
		x, more := found.Next()
		if !more {
			return e.writeOut(out.Bytes())
		}
		switch x := x.(type) {
		case error:
			return exitError(exitUsage, "see: https://jqlang.org/manual", "--jq: %w", x)
		case string:
			printText(&out, "%s\n", x)
		default:
			b, err := gojq.Marshal(x)
			if err != nil {
				return fmt.Errorf("printing what --jq has found: %w", err)
			}
			printText(&out, "%s\n", b)
		}
	}
}
