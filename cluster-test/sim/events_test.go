package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
	"berth/node"
	"berth/webhook"
	zoneevents "berth/zone/events"
)

// alone is a zone of three nodes and one agent.
var alone = plot{"root", 3, []int{1}, nil}

const receiverHost = "127.9.0.2"

// watcher collects what a zone tells of its events.
type watcher struct {
	mu       sync.Mutex // guards the fields below
	streamed []string   // ids, as a client read them
	sent     []string   // ids, as a webhook got them
	bad      []string   // deliveries that are not signed
}

func (o *watcher) add(to *[]string, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*to = append(*to, id)
}

// stream follows the events of a zone, from node to node.
func (o *watcher) stream(ctx context.Context, z *zone) {
	q := client.EventsQuery{Follow: true}
	for _, p := range z.nodes[1:] {
		q.Nodes = append(q.Nodes, "http://"+node.DefaultAddresses(p.host.Name()).API)
	}
	for e, err := range z.client(z.nodes[0]).Events(ctx, q) {
		if err != nil {
			o.add(&o.bad, err.Error())
			return
		}
		o.add(&o.streamed, e.ID)
	}
}

// receive answers deliveries to a webhook; every third fails.
func (o *watcher) receive(z *zone, wg *sync.WaitGroup, secret string) (stop func()) {
	w := z.w
	host := w.net.Host(receiverHost)
	host.Up()
	ln, err := host.Listen(w.ctx, receiverHost+":80")
	require.NoError(w.t, err)
	n := 0
	server := http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var e rest.Event
		if err == nil {
			err = errors.Join(json.Unmarshal(body, &e), webhook.Verify(secret, r.Header.Get(webhook.HeaderSignature), time.Now(), body))
		}
		if err != nil || e.ID != r.Header.Get(webhook.HeaderEventID) {
			o.add(&o.bad, fmt.Sprintf("%v: %s", err, body))
		}
		o.mu.Lock()
		n++
		fails := n%3 == 0
		o.mu.Unlock()
		if fails {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		o.add(&o.sent, e.ID)
	})}
	wg.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			w.fail("the receiver of a webhook ended: %v", err)
		}
	})
	return func() { _ = server.Close() }
}

// TestEventsReachTheirWatchers while the leader is killed at each step of a delivery, and the
// node of the stream in turn: a stream misses nothing and repeats nothing, and a webhook gets
// every event at least once and in order.
func TestEventsReachTheirWatchers(t *testing.T) {
	for _, p := range dice.Part(t, crash.WebhookPoints(), 2) {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { watchStory(t, p) })
		})
	}
}

func watchStory(t *testing.T, p crash.Point) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), alone)
	z := w.root()
	o := &watcher{}
	var hook rest.WebhookCreated
	z.insist("config", func(ctx context.Context, c *client.Client) error {
		conf, err := c.Config(ctx)
		if err == nil {
			conf.WebhookNetworks = []string{"127.9.0.0/16"}
			_, err = c.SetConfig(ctx, conf)
		}
		return err
	})
	z.insist("webhook", func(ctx context.Context, c *client.Client) (err error) {
		hook, err = c.CreateWebhook(ctx, rest.WebhookSpec{Name: "sink", URL: "http://" + receiverHost + "/"})
		return err
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer o.receive(z, &wg, hook.Secret)()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	wg.Go(func() { o.stream(ctx, z) })
	s := &shot{left: 2}
	for _, one := range z.nodes {
		one.bomb.arm(p, 0, func() { s.hit(func() { one.down(pointRest) }) })
	}
	for round := range 6 {
		res := fmt.Sprint("watched-", round)
		z.run(res, 1, 2)
		if round >= 2 {
			z.nodes[round%len(z.nodes)].down(pointRest)
			await.Sleep(2 * pointRest)
		}
		z.insist("release", func(ctx context.Context, c *client.Client) error {
			_, err := c.Release(ctx, api.ReservationID(res), time.Minute)
			return err
		})
		await.Sleep(10 * time.Second)
	}
	w.heal()
	await.Sleep(time.Minute)
	cancel()
	require.LessOrEqual(t, s.remains(), 0, "%s was not reached so often", p)

	v := z.view()
	all, whole := v.Events(api.EventID{}, math.MaxInt)
	require.True(t, whole)
	var everything, projects []string
	began, _ := v.Webhook("admin", "sink")
	require.NotNil(t, began)
	mine := zoneevents.Watch{Project: "admin"}
	for _, e := range all {
		id := v.EventID(e).String()
		everything = append(everything, id)
		if mine.Sees(e) {
			projects = append(projects, id)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	assert.Empty(t, o.bad)
	require.Greater(t, len(projects), 30)
	assert.Equal(t, everything, o.streamed, "each event once, in order, over all nodes")
	last := -1
	for i, id := range o.sent {
		at := slices.Index(projects, id)
		require.GreaterOrEqual(t, at, 0, "%s is not the project's", id)
		require.LessOrEqual(t, at, last+1, "delivery %d: %s before those in front of it", i, id)
		last = max(last, at)
	}
	assert.Equal(t, len(projects)-1, last, "every event arrived")
	assert.Empty(t, began.Reason)
}
