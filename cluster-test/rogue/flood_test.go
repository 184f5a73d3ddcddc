package rogue

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"berth/api"
)

// Sizes of a flood. Without a budget for bodies, all kinds of them together are more than the process may have.
const (
	floodBytes  = 256 << 20       // of one kind of body, of all connections of one try
	floodConns  = 128             // of one kind, at most
	floodHolds  = 2 * time.Second // for which a body waits for its last byte
	floodMemory = 1 << 30         // of the process, with five zones and the flood itself
	floodPiece  = 256 << 10       // bytes that are sent at once

	floodArrives = 2 * time.Second       // in which the connections of one try come, one after the other
	floodPace    = 50 * time.Millisecond // between two pieces
)

// flood sends bodies that do not end, as large as they may be and larger, to every listener: with nothing, with a token, with the
// certificate of an agent and with that of a parent.
func flood() party {
	return party{
		name: "flood", budget: size{state: 4 << 20, log: 24 << 20, index: 20_000}, lanes: 1, triesMin: 1, memory: floodMemory,
		attacks: func(t *testing.T, p *phase) []attack {
			t.Helper()
			token := p.root.member("flood", api.RoleMember)
			home, creds := p.root.joined("flood", api.AgentTerms{HostPrefix: "flood-", HostsMax: 1, Disabled: true})
			at := p.root.node.Addresses()
			agent, parent := agentTLS(home, creds), p.crown.gatewayTLS(p.root, api.ALPNHTTP)
			cbor, member := "Content-Type: "+api.MediaCBOR+"\r\n", "Content-Type: application/json\r\nAuthorization: Bearer "+token+"\r\n"
			return []attack{{"bodies that do not end", floods{
				"joins of nobody":           {at.API, nil, "POST /operator/join", "Content-Type: application/json\r\n", api.BodyMaxBytes},
				"boots of a member":         {at.API, nil, "POST /zones/boot", member, api.BodyMaxBytes},
				"plans of a member":         {at.API, nil, "POST /servers", member, api.PlanBodyMaxBytes},
				"registrations of an agent": {at.Agent, agent, "POST " + api.PathAgentRegister, cbor, 16 << 20},
				"reports of an agent":       {at.Agent, agent, "POST " + api.PathAgentReport, cbor, api.ZoneBodyMaxBytes},
				"holds of a parent":         {at.Gateway, parent, "POST /zones/holds", cbor, api.ZoneBodyMaxBytes},
			}.send}}
		},
	}
}

// floods are all kinds of calls, by name.
type floods map[string]flooding

// flooding is a call that is made often at once, and not ended.
type flooding struct {
	addr       string
	tls        *tls.Config // nil for none
	call, head string
	size       int
}

// send makes all calls at once. What they cost is held against the memory that the process may have.
func (all floods) send(ctx context.Context, r *record) error {
	var wg sync.WaitGroup
	for name, f := range all {
		conns := min(floodBytes/f.size, floodConns)
		for n := range conns {
			wg.Go(func() {
				pauseFor(ctx, time.Duration(n)*floodArrives/time.Duration(conns))
				r.note(fmt.Sprint(name, ": ", f.sendOne(ctx, r, n%2 == 0)))
			})
		}
	}
	wg.Wait()
	return nil
}

// sendOne sends all of a body but its end, waits for a while, and returns what came of it. says is whether it says its length.
func (f flooding) sendOne(ctx context.Context, r *record, says bool) (outcome string) {
	c, err := f.dial(ctx)
	if err != nil {
		return "not connected"
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // whatever it was doing
	defer stop()
	defer func() { _ = c.Close() }() // it may be closed
	answered := make(chan int, 1)
	go func() {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			answered <- 0
			return
		}
		b, _ := io.ReadAll(io.LimitReader(res.Body, answerMax)) // as far as it comes
		r.keep(b)
		answered <- res.StatusCode
	}()
	_ = f.write(ctx, c, says) // as far as it gets: the answer says why
	select {
	case status := <-answered:
		return strconv.Itoa(status)
	case <-time.After(floodHolds):
		return "held"
	}
}

// dial connects to the listener.
func (f flooding) dial(ctx context.Context) (net.Conn, error) {
	c, err := from(rogueAddr)(ctx, f.addr)
	if err != nil || f.tls == nil {
		return c, err
	}
	over := tls.Client(c, f.tls)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = c.Close() // the handshake's error is more useful
		return nil, err
	}
	return over, nil
}

// write says how long the body is, or not, and sends it up to its last byte, piece by piece.
func (f flooding) write(ctx context.Context, c net.Conn, says bool) error {
	length := fmt.Sprintf("Content-Length: %d", f.size)
	if !says {
		length = "Transfer-Encoding: chunked"
	}
	if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\n%s%s\r\n\r\n", f.call, f.head, length); err != nil {
		return err
	}
	if !says {
		if _, err := fmt.Fprintf(c, "%x\r\n", f.size); err != nil {
			return err
		}
	}
	piece := bytes.Repeat([]byte(" "), floodPiece)
	for left := f.size - 1; left > 0; left -= min(left, floodPiece) {
		if _, err := c.Write(piece[:min(left, floodPiece)]); err != nil {
			return err
		}
		pauseFor(ctx, floodPace)
	}
	return nil
}
