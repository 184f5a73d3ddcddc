package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRun(t *testing.T) {
	sum := int64(0)
	Run(t, "testdata/add.txt", func(c Command) (string, error) {
		switch c.Name {
		case "add":
			if by, ok := c.Value("by"); ok {
				n, err := strconv.ParseInt(by, 10, 64)
				sum += n
				return "", err
			}
			sum += c.Int(t, 0) + c.Int(t, 1)
			return "", nil
		case "sum":
			return fmt.Sprintln("sum", sum), nil
		case "take":
			return "", fmt.Errorf("only %d there", sum)
		case "odd":
			return "first\n\n> not a command\n# not a comment\n|not a mark", nil
		}
		return "", errors.New("no such command")
	})
}

func TestPlayReplacesOnlyAnswers(t *testing.T) {
	text := "# kept\n\n> a\nold\nolder\n# kept too\nstray text stays\n> b\n>\n> a\n\n"
	var seen []string
	got := playScript("f", text, func(c Command) (string, error) {
		seen = append(seen, c.Pos+" "+c.Name+c.Arg(0))
		return "new " + c.Name, nil
	})
	assert.Equal(t, "# kept\n\n> a\nnew a\n# kept too\nstray text stays\n> b\nnew b\n>\n> a\nnew a\n\n", got)
	assert.Equal(t, []string{"f:3 a", "f:8 b", "f:10 a"}, seen)
}

func TestPlayIsStable(t *testing.T) {
	answers := []string{"", "\n", "x", "x\n", "\n\nx\n\n", "|", "> y\n# z"}
	for _, answer := range answers {
		do := func(Command) (string, error) { return answer, nil }
		once := playScript("f", "> a\n> b\n", do)
		assert.Equal(t, once, playScript("f", once, do), "answer %q", answer)
		assert.Equal(t, 2, strings.Count(once, "\n> ")+1, "answer %q", answer)
	}
}
