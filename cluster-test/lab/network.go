package lab

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
)

// network is the wires of one kind of world. Its methods are called one at a time.
type network interface {
	// plug gives a machine an address and the means to use it.
	plug(m *Machine) error
	// deafen drops everything that one of from sends to to, from now on and even on
	// existing connections; everything else reaches it.
	deafen(to *Machine, from []*Machine) error
	// slow limits the bytes that m sends per second; 0 is no limit.
	slow(m *Machine, bytesPerSecond int) error
	// lose drops at random so many of 100 packets that m receives from others; 0 is none.
	lose(m *Machine, percent int) error
	// double sends so many of 100 packets of m, fewer than all, twice; 0 is none.
	double(m *Machine, percent int) error
	// doubled returns how many packets of m were sent twice.
	doubled(m *Machine) (uint64, error)
	// delayed returns how often m had to wait for its limit.
	delayed(m *Machine) (uint64, error)
	// dropped returns how often something sent to m was held back.
	dropped(m *Machine) (uint64, error)
	// close releases the resources that belong to no machine.
	close() error
}

// newNetwork returns the wires of a world, and where its clients are.
func newNetwork(w *World) (network, *Machine, error) {
	clients := &Machine{Name: "clients", w: w}
	switch w.opts.Machines {
	case Plain:
		return plain{}, clients, nil
	case Loopback:
		return newLoopback(w), clients, nil
	case Namespaces:
		n, err := newNamespaces(clients)
		return n, clients, err
	}
	return nil, nil, fmt.Errorf("no kind of machines is %d", w.opts.Machines)
}

// plain is this machine's own loopback interface.
type plain struct{}

// plug gives a machine an address of 127.0.0.0/8 that it has alone, as far as chance
// goes: the ports that a node had are free when it starts again, whatever calls from
// 127.0.0.1 took meanwhile. Systems that have 127.0.0.1 alone share that.
func (plain) plug(m *Machine) error {
	m.Addr = fmt.Sprintf("127.%d.%d.3", 1+rand.N(250), rand.N(250))
	var lc net.ListenConfig
	if ln, err := lc.Listen(m.w.T.Context(), "tcp", net.JoinHostPort(m.Addr, "0")); err == nil {
		return ln.Close()
	}
	m.Addr = "127.0.0.1"
	return nil
}

func (plain) deafen(*Machine, []*Machine) error { return ErrNoWire }
func (plain) slow(*Machine, int) error          { return ErrNoWire }
func (plain) lose(*Machine, int) error          { return ErrNoWire }
func (plain) double(*Machine, int) error        { return ErrNoWire }
func (plain) doubled(*Machine) (uint64, error)  { return 0, ErrNoWire }
func (plain) dropped(*Machine) (uint64, error)  { return 0, ErrNoWire }
func (plain) delayed(*Machine) (uint64, error)  { return 0, ErrNoWire }
func (plain) close() error                      { return nil }

// wires are a network and the cuts in it.
type wires struct {
	mu   sync.Mutex // guards what follows, also while the network is changed
	net  network
	deaf map[*Machine]map[*Machine]int // by receiver: the senders it does not hear, with the number of cuts
	gone map[*Machine]bool             // those that have vanished
	slow map[*Machine]bool
	bad  map[*Machine]bool // those that lose packets
	echo map[*Machine]bool // those that send packets twice
}

// CutOneWay silently drops everything that from sends to to, even on existing connections.
// The other direction still works. Two cuts need two joins.
func (w *World) CutOneWay(from, to *Machine) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	return w.wires.cutWire(from, to)
}

func (s *wires) cutWire(from, to *Machine) error {
	if s.deaf[to] == nil {
		s.deaf[to] = map[*Machine]int{}
	}
	s.deaf[to][from]++
	return s.applyCuts(to)
}

// JoinOneWay undoes one CutOneWay.
func (w *World) JoinOneWay(from, to *Machine) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	if w.wires.deaf[to][from] == 0 {
		return nil
	}
	if w.wires.deaf[to][from]--; w.wires.deaf[to][from] == 0 {
		delete(w.wires.deaf[to], from)
	}
	return w.wires.applyCuts(to)
}

// applyCuts applies the cuts towards a machine to the network.
func (s *wires) applyCuts(to *Machine) error {
	from := map[*Machine]bool{}
	for m := range s.deaf[to] {
		from[m] = true
	}
	maps.Copy(from, s.gone)
	if s.gone[to] {
		for _, m := range to.w.allMachines() {
			from[m] = true
		}
	}
	delete(from, to) // a machine hears itself
	if err := s.net.deafen(to, slices.Collect(maps.Keys(from))); err != nil {
		return fmt.Errorf("cutting wires to %s: %w", to.Name, err)
	}
	return nil
}

// Cut lets nothing pass between two machines, as CutOneWay does in both directions.
func (w *World) Cut(a, b *Machine) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	return errors.Join(w.wires.cutWire(a, b), w.wires.cutWire(b, a))
}

// Isolate cuts a machine off from all others, but not from clients.
func (w *World) Isolate(m *Machine) error {
	var errs []error
	for _, other := range w.Machines() {
		if other != m {
			errs = append(errs, w.Cut(m, other))
		}
	}
	return errors.Join(errs...)
}

// Vanish takes a machine off the network, as when its power fails: everything that others
// send it, and it sends others, is silently dropped, even on existing connections; calls
// to dial it wait. Its processes continue. Only
// machines in network namespaces can vanish; others return ErrNoWire.
func (w *World) Vanish(m *Machine) error { return w.setGone(m, true) }

// Return puts a machine that has vanished back on the network. Cuts remain.
func (w *World) Return(m *Machine) error { return w.setGone(m, false) }

func (w *World) setGone(m *Machine, gone bool) error {
	if w.opts.Machines != Namespaces {
		return ErrNoWire
	}
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	if w.wires.gone[m] = gone; !gone {
		delete(w.wires.gone, m)
	}
	var errs []error
	for _, to := range w.allMachines() {
		errs = append(errs, w.wires.applyCuts(to))
	}
	return errors.Join(errs...)
}

// admitMachine keeps a new machine and vanished ones from reaching each other.
func (s *wires) admitMachine(m *Machine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.gone) == 0 {
		return nil
	}
	errs := []error{s.applyCuts(m)}
	for gone := range s.gone {
		errs = append(errs, s.applyCuts(gone))
	}
	return errors.Join(errs...)
}

// allMachines returns all machines, and where the clients are.
func (w *World) allMachines() []*Machine { return append(w.Machines(), w.Clients) }

// Slow limits the bytes that a machine sends per second.
func (w *World) Slow(m *Machine, bytesPerSecond int) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	if err := w.wires.net.slow(m, bytesPerSecond); err != nil {
		return fmt.Errorf("slowing %s down: %w", m.Name, err)
	}
	w.wires.slow[m] = true
	return nil
}

// Fast undoes Slow.
func (w *World) Fast(m *Machine) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	if !w.wires.slow[m] {
		return nil
	}
	delete(w.wires.slow, m)
	if err := w.wires.net.slow(m, 0); err != nil {
		return fmt.Errorf("giving %s its full speed: %w", m.Name, err)
	}
	return nil
}

// Delayed returns how often something that m sent had to wait since Slow.
func (w *World) Delayed(m *Machine) (uint64, error) {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	return w.wires.net.delayed(m)
}

// Lose drops at random so many of 100 packets that a machine receives, until it is called with 0. Only
// machines in network namespaces have packets; others return ErrNoWire.
func (w *World) Lose(m *Machine, percent int) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	if err := w.wires.net.lose(m, percent); err != nil {
		return fmt.Errorf("losing packets to %s: %w", m.Name, err)
	}
	if w.wires.bad[m] = true; percent == 0 {
		delete(w.wires.bad, m)
	}
	return nil
}

// Double sends at random so many of 100 packets that a machine sends to others twice, until it is called with 0. All
// that zones say to each other is in TCP streams, which count their bytes: what comes twice, or in another order, costs
// them time and no more, and shows that the kernel's TCP is between them and the wire. As Lose, it needs packets.
func (w *World) Double(m *Machine, percent int) error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	if err := w.wires.net.double(m, percent); err != nil {
		return fmt.Errorf("doubling packets of %s: %w", m.Name, err)
	}
	if w.wires.echo[m] = true; percent == 0 {
		delete(w.wires.echo, m)
	}
	return nil
}

// Doubled returns how many packets of m were sent twice.
func (w *World) Doubled(m *Machine) (uint64, error) {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	return w.wires.net.doubled(m)
}

// Heal undoes all cuts, limits, losses and doublings, and returns all vanished machines to the network.
func (w *World) Heal() error {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	var errs []error
	change := w.allMachines()
	if len(w.wires.gone) == 0 {
		change = slices.Collect(maps.Keys(w.wires.deaf))
	}
	clear(w.wires.gone)
	clear(w.wires.deaf)
	for _, m := range change {
		errs = append(errs, w.wires.applyCuts(m))
	}
	for m := range w.wires.slow {
		delete(w.wires.slow, m)
		errs = append(errs, w.wires.net.slow(m, 0))
	}
	for m := range w.wires.bad {
		delete(w.wires.bad, m)
		errs = append(errs, w.wires.net.lose(m, 0))
	}
	for m := range w.wires.echo {
		delete(w.wires.echo, m)
		errs = append(errs, w.wires.net.double(m, 0))
	}
	return errors.Join(errs...)
}

// Dropped returns how often something sent to m was held back by a cut, or lost:
// packets in a Namespaces world, pieces of streams in a Loopback world.
func (w *World) Dropped(m *Machine) (uint64, error) {
	w.wires.mu.Lock()
	defer w.wires.mu.Unlock()
	return w.wires.net.dropped(m)
}
