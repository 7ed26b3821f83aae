// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
)

// Times.
const (
	answerTimeout = 2 * time.Second
	retryEvery    = time.Second
	watchEvery    = 100 * time.Millisecond
)

// ErrRefused says that the arbiter refuses the VM, or what is asked for it.
var ErrRefused = errors.New("the arbiter refuses")

// Config is what a Client needs.
type Config struct {
	Path     string // of the arbiter's socket; "": the usual ones
	Required bool   // it is an error that nobody answers there
	Again    bool   // the VM runs already, and goes on also without an arbiter
	Name     string // of the VM
	GPUs     []link.GPU
	Room     uint64            // that the VM was given on each of them; 0: nobody said
	Policy   map[string]string // asked for
	Page     *gate.Page        // stays the caller's
	// Terms is told the terms of the VM: first before New returns, then by a goroutine for which
	// nobody waits. nil: nobody is told.
	Terms func(*link.Terms)
	// Place says where the VM's memory is. Order is told where it is to be, and Alone whether the
	// arbiter is away. They must not wait; nil: memory stays where it is.
	Place func() *link.Place
	Order func(*link.Order)
	Alone func(bool)
	// Warm is told how many warm workers the VM may keep, from the goroutine that reads; nil: any.
	Warm func(n int)
	// Connect connects to a socket of link.Network, for a process that can't itself; nil: it can.
	Connect func(path string) (link.Socket, error)
	Log     *logrus.Entry
}

// Client takes part in the sharing for a VM.
type Client struct {
	config Config
	stop   chan struct{}
	ended  sync.WaitGroup

	news    chan struct{}     // has something when the terms have changed
	asking  sync.Mutex        // one question at a time
	answers chan *link.Answer // to it

	mu     sync.Mutex
	conn   *link.Conn // nil while there is no arbiter
	policy map[string]string
	terms  *link.Terms // as told last
	own    *link.VM    // as the arbiter has it
	said   string      // what was logged last
}

// New joins. If nobody answers, the VM runs unshared and joins when somebody does; if the arbiter
// is required, that is an error. So is an arbiter that refuses.
func New(c Config) (*Client, error) {
	x := &Client{
		config: c, stop: make(chan struct{}), answers: make(chan *link.Answer, 1), policy: c.Policy,
		news: make(chan struct{}, 1),
	}
	conn, err := x.join()
	switch {
	case err == nil:
	case !c.Again && (errors.Is(err, ErrRefused) || c.Required):
		return nil, err
	case !errors.Is(err, ErrNone):
		x.say(fmt.Sprintf("the GPU is not shared: %v", err))
	}
	x.pass()
	x.ended.Go(func() { x.run(conn) })
	x.ended.Go(func() {
		for {
			select {
			case <-x.news:
				x.pass()
			case <-x.stop:
				return
			}
		}
	})
	return x, nil
}

// Close ends the part and leaves the gate open.
func (x *Client) Close() {
	close(x.stop)
	x.mu.Lock()
	if x.conn != nil {
		x.conn.Close()
	}
	x.mu.Unlock()
	x.ended.Wait()
	x.config.Page.Set(gate.Unshared)
}

// Tell sends figures of the VM, and how many warm workers it wants.
func (x *Client) Tell(f *link.Figures, w *link.Warm) {
	x.send(&link.Request{Version: link.Version, Kind: link.Tell, Figures: f, Warm: w})
}

// Stay tells where the VM's memory is.
func (x *Client) Stay(p *link.Place) {
	x.send(&link.Request{Version: link.Version, Kind: link.Stay, Place: p})
}

// stay sends where it is now.
func (x *Client) stay() {
	if x.config.Place != nil {
		x.Stay(x.config.Place())
	}
}

// Set asks for another policy. If the arbiter refuses, that is an error and the policy is as it
// was. Without an arbiter, Set takes effect when there is one.
func (x *Client) Set(policy map[string]string) error {
	x.asking.Lock()
	defer x.asking.Unlock()
	select {
	case <-x.answers: // too late
	default:
	}
	if x.send(&link.Request{Version: link.Version, Kind: link.Set, Policy: policy}) {
		select {
		case a := <-x.answers:
			if a.Error != "" {
				return fmt.Errorf("%w: %s", ErrRefused, a.Error)
			}
		case <-time.After(answerTimeout):
			return errors.New("the arbiter doesn't answer: is it stopped?")
		}
	}
	x.mu.Lock()
	x.policy = policy
	x.mu.Unlock()
	return nil
}

// Joined says whether there is an arbiter.
func (x *Client) Joined() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn != nil
}

// Terms are the terms of the VM; nil: no arbiter has sent any yet. Bounds hold without an arbiter
// too.
func (x *Client) Terms() *link.Terms {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.terms
}

// VM is the VM as the arbiter saw it a moment ago; nil: there is no arbiter, or it hasn't sent that
// yet.
func (x *Client) VM() *link.VM {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return nil
	}
	return x.own
}

// send sends a request if there is an arbiter, and says whether there is.
func (x *Client) send(r *link.Request) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return false
	}
	x.conn.SendDeadline(time.Now().Add(answerTimeout))
	return x.conn.Send(r) == nil // that the arbiter is gone is noticed elsewhere
}

// join connects and introduces the VM. If it isn't accepted, the gate is open and free.
func (x *Client) join() (*link.Conn, error) {
	conn, err := connector(x.config.Connect).dialAny(x.config.Path)
	if err != nil {
		return nil, err
	}
	stop := x.watch(func(bool) {}) // an arbiter that stops here may have closed the gate
	terms, err := x.introduce(conn)
	stop()
	if err != nil {
		conn.Close()
		x.config.Page.Set(gate.Unshared)
		return nil, fmt.Errorf("join the arbiter: %w", err)
	}
	x.told(terms)
	return conn, nil
}

// introduce says what VM this is.
func (x *Client) introduce(conn *link.Conn) (*link.Terms, error) {
	conn.Deadline(time.Now().Add(answerTimeout))
	x.mu.Lock()
	r := link.Request{
		Version: link.Version, Kind: link.Join, Name: x.config.Name, GPUs: x.config.GPUs,
		Room: x.config.Room, Policy: x.policy,
	}
	x.mu.Unlock()
	if x.config.Place != nil {
		r.Place = x.config.Place()
	}
	memory, bell, opened := x.config.Page.FDs()
	if err := conn.Send(&r, memory, bell, opened); err != nil {
		return nil, err
	}
	var a link.Answer
	if _, err := conn.Receive(&a, 0); err != nil {
		return nil, err
	}
	conn.Deadline(time.Time{})
	return a.Terms, check(&a)
}

// check says what is wrong with an answer.
func check(a *link.Answer) error {
	if a.Error != "" {
		return fmt.Errorf("%w: %s", ErrRefused, a.Error)
	}
	if a.Version != link.Version {
		return fmt.Errorf("%w: it speaks version %d, this process version %d: "+
			"install the same paracuda for both", ErrRefused, a.Version, link.Version)
	}
	return nil
}

// told takes terms; nil: none.
func (x *Client) told(t *link.Terms) {
	if t == nil {
		return
	}
	x.mu.Lock()
	x.terms = t
	x.mu.Unlock()
	select {
	case x.news <- struct{}{}:
	default:
	}
}

// pass passes on the terms that hold.
func (x *Client) pass() {
	if t := x.Terms(); t != nil && x.config.Terms != nil {
		x.config.Terms(t)
	}
}

// run takes part until the client is closed.
func (x *Client) run(conn *link.Conn) {
	for {
		if conn != nil {
			x.say("the GPU is shared by the arbiter")
			x.take(conn)
			x.config.Page.Set(gate.Unshared)
		}
		select {
		case <-x.stop:
			return
		case <-time.After(retryEvery):
		}
		var err error
		if conn, err = x.join(); errors.Is(err, ErrRefused) {
			x.say(err.Error())
		}
	}
}

// say logs what has changed.
func (x *Client) say(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if text != x.said {
		x.said = text
		x.config.Log.Info(text)
	}
}

// take takes part until the connection ends.
func (x *Client) take(conn *link.Conn) {
	x.mu.Lock()
	x.own = nil
	if x.conn = conn; x.closed() {
		conn.Close()
	}
	x.mu.Unlock()
	x.stay() // for what has changed since the VM was introduced
	stop := x.watch(func(beats bool) {
		x.alone(!beats)
		if beats {
			x.say("the GPU is shared by the arbiter")
		} else {
			x.say("the arbiter doesn't answer: the GPU is not shared until it does")
		}
	})
	x.listen(conn)
	stop()
	x.mu.Lock()
	x.conn = nil
	x.mu.Unlock()
	conn.Close()
	if !x.closed() {
		x.alone(true)
		if x.config.Order != nil {
			x.config.Order(&link.Order{}) // its orders end with the arbiter
		}
		x.say("the arbiter has ended: the GPU is not shared until there is one again")
	}
}

// alone says whether the arbiter is away.
func (x *Client) alone(away bool) {
	if x.config.Alone != nil {
		x.config.Alone(away)
	}
}

// closed says whether Close was called.
func (x *Client) closed() bool {
	select {
	case <-x.stop:
		return true
	default:
		return false
	}
}

// listen takes what the arbiter says until the connection ends.
func (x *Client) listen(conn *link.Conn) {
	for {
		var a link.Answer
		_, err := conn.Receive(&a, 0)
		switch {
		case errors.Is(err, link.ErrMessage):
			continue
		case err != nil:
			return
		}
		x.told(a.Terms)
		if a.Order != nil && x.config.Order != nil {
			x.config.Order(a.Order)
		}
		if a.Warm != nil && x.config.Warm != nil {
			x.config.Warm(*a.Warm)
		}
		if len(a.VMs) == 1 {
			x.mu.Lock()
			x.own = &a.VMs[0]
			x.mu.Unlock()
		}
		if a.Asked {
			select {
			case x.answers <- &a:
			default:
			}
		}
	}
}

// watch opens the gate whenever the arbiter doesn't beat, until watch is stopped. An arbiter that
// beats again sets the gate itself.
func (x *Client) watch(look func(beats bool)) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
			}
			beats := arbiter.Now()-x.config.Page.Beaten() <= arbiter.BeatTimeout
			if !beats {
				x.config.Page.Set(gate.Unshared)
			}
			look(beats)
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
