package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// pagesMax bounds the number of pages read of one list.
const pagesMax = 1000

// verb is what a command does with a client.
type verb func(ctx context.Context, c *client.Client, args []string) error

// withClient adapts v to cobra and gives it a client for the zone in the settings.
func (e *env) withClient(v verb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := e.checkFormat(); err != nil {
			return err
		}
		c, err := e.newClient()
		if err != nil {
			return err
		}
		defer c.Close()
		return v(cmd.Context(), c, args)
	}
}

// slowAfter is how long a verb waits for an answer before it prints a note.
const slowAfter = 5 * time.Second

// noteWaiting prints one note after slowAfter unless the returned function is called
// before. A repeated call may take six times as long as one attempt.
func (e *env) noteWaiting() (answered func()) { return e.noteWaitingFor("") }

// noteWaitingFor is noteWaiting for the answer about a request that the caller can name.
func (e *env) noteWaitingFor(request string) (answered func()) {
	if request != "" {
		request = " about " + request
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		slow := time.NewTimer(slowAfter)
		defer slow.Stop()
		select {
		case <-slow.C:
			e.printNote("still waiting for %s%s ...", e.calling, request)
		case <-stop:
		}
	})
	return func() {
		close(stop)
		wg.Wait()
	}
}

// showAnswer makes a call and prints its answer: as it came, or as tables.
func showAnswer[T any](ctx context.Context, e *env, call func(context.Context) (T, error), tables func(T) []table) error {
	var body []byte
	answered := e.noteWaiting()
	v, err := call(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }))
	answered()
	if err != nil {
		return err
	}
	return e.printAnswer(body, func() []table { return tables(v) })
}

// showList is showAnswer for a list without pages, whose items are under key in the answer, as the flags of listing want it.
func showList[T any](ctx context.Context, e *env, key string, call func(context.Context) (T, error), tables func(T) []table) error {
	var body []byte
	answered := e.noteWaiting()
	v, err := call(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }))
	answered()
	if err != nil {
		return err
	}
	return e.printList(key, body, func() []table { return tables(v) })
}

// printList is printAnswer for a list whose items are under key in the body, as the flags of listing want it.
func (e *env) printList(key string, body []byte, show func() []table) error {
	if !e.list.isGiven() && e.format != formatName {
		return e.printAnswer(body, show)
	}
	shown := show()
	if e.list.isGiven() {
		var err error
		if body, err = e.list.arrangeBody(shown, key, body); err != nil {
			return err
		}
	}
	if t := onlyList(shown); t != nil && e.format == formatName {
		shown = []table{*t} // and not what stands above it
	}
	return e.printAnswer(body, func() []table { return shown })
}

// listAll prints all pages of a list, whose items are under key in the answers, as the flags of listing want it.
func listAll[T any](
	ctx context.Context, e *env, key string,
	fetch func(context.Context, client.ListOptions) (client.Page[T], error), tables func([]T) []table,
) error {
	var all []T
	var raw []json.RawMessage
	var body []byte
	ctx = client.WithAnswer(ctx, func(a client.Answer) { body = a.Body })
	as := &e.list
	joined := as.isGiven()
	for o := (client.ListOptions{}); ; {
		answered := e.noteWaiting()
		p, err := fetch(ctx, o)
		answered()
		if err != nil {
			return err
		}
		all = append(all, p.Items...)
		if p.Next == "" && o.Marker == "" && !joined {
			break // a single page is printed as it came
		}
		joined = true
		var answer map[string][]json.RawMessage
		if err = json.Unmarshal(withoutMarker(body), &answer); err != nil {
			return fmt.Errorf("joining the pages of a list: %w", err)
		}
		raw = append(raw, answer[key]...)
		if p.Next == "" || len(all) >= pagesMax*api.PageMax || as.sorted() == "" && as.limit > 0 && len(all) >= as.limit {
			break
		}
		o.Marker = p.Next
	}
	shown := tables(all)
	if joined {
		raw, err := as.arrange(shown, raw)
		if err != nil {
			return err
		}
		if body, err = joinItems(key, raw); err != nil {
			return err
		}
	}
	return e.printAnswer(body, func() []table { return shown })
}

// withoutMarker returns the body of a list without next_marker.
func withoutMarker(body []byte) []byte {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return body // the caller reports it
	}
	delete(answer, "next_marker")
	b, err := json.Marshal(answer)
	if err != nil {
		return body
	}
	return b
}

// findNamed returns the id of the only item that is called ref, out of all pages of a list of those with this text in their
// names. With all, the list is of all projects.
func findNamed[T any](
	ctx context.Context, noun, ref string, all bool, fetch func(context.Context, client.ListOptions) (client.Page[T], error), of func(T) (api.InstanceID, string),
) (api.InstanceID, error) {
	var ids []string
	o := client.ListOptions{}
	for range pagesMax {
		p, err := fetch(ctx, o)
		if err != nil {
			return "", err
		}
		for _, i := range p.Items {
			if id, name := of(i); name == ref {
				ids = append(ids, string(id))
			}
		}
		if o.Marker = p.Next; o.Marker == "" {
			break
		}
	}
	switch {
	case len(ids) == 1:
		return api.InstanceID(ids[0]), nil
	case len(ids) > 1:
		shown, more := ids, ""
		if len(ids) > lostShown {
			shown, more = ids[:lostShown], ", ..."
		}
		return "", exitError(exitConflict, "give the id of one: "+strings.Join(shown, ", ")+more, "%d %ss are named %q", len(ids), noun, ref)
	case all:
		return "", exitError(exitNotFound, "list the "+noun+"s with: berth "+noun+" list --all-projects", "there is no %s %q in any project", noun, ref)
	}
	return "", exitError(exitNotFound, "list the "+noun+"s with: berth "+noun+" list; admins find those of other projects with --all-projects", "there is no %s %q", noun, ref)
}

// onePage adapts a call without pages for listAll.
func onePage[T any](get func(context.Context) ([]T, error)) func(context.Context, client.ListOptions) (client.Page[T], error) {
	return func(ctx context.Context, _ client.ListOptions) (client.Page[T], error) {
		items, err := get(ctx)
		return client.Page[T]{Items: items}, err
	}
}

// tableOf returns one table with a row for each item.
func tableOf[T any](header string, row func(T) []any) func([]T) []table {
	return func(items []T) []table {
		t := table{header: strings.Split(header, "|")}
		for _, i := range items {
			t.addRow(row(i)...)
		}
		return []table{t}
	}
}

// wideTableOf is tableOf with more columns, which are shown only if they are asked for.
func wideTableOf[T any](header, wide string, row func(T) []any) func([]T) []table {
	narrow := tableOf(header+"|"+wide, row)
	return func(items []T) []table {
		ts := narrow(items)
		ts[0].wide = 1 + strings.Count(wide, "|")
		return ts
	}
}

// showInstant returns an instant with whole seconds, and "never" for api.Forever.
func showInstant(i api.Instant) string {
	if i == api.Forever {
		return "never"
	}
	return i.Time().Format("2006-01-02T15:04:05Z")
}

// showBool returns a truth value for a table.
func showBool(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// countThings returns "1 instance" or "3 instances".
func countThings(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// showCounts returns "ACTIVE 3, ERROR 1", in the order of an instance's life.
func showCounts(c rest.BootCounts) (text string, sum int) {
	var parts []string
	for _, s := range []api.Status{
		api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted,
	} {
		if c[s] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, c[s]))
			sum += c[s]
		}
	}
	return strings.Join(parts, ", "), sum
}
