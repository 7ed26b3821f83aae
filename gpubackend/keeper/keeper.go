// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

// MaxKept is how many descriptors are kept: more than the regions, rings and workers of a VM.
const MaxKept = 2048

// Defaults of Config.
const (
	DefaultCrashes = 5
	DefaultWindow  = time.Minute
	DefaultPause   = 100 * time.Millisecond
)

// maxDoubled is how often a pause is doubled.
const maxDoubled = 16

// ErrCrashes says that children have crashed too often.
var ErrCrashes = errors.New("it crashes again and again and isn't started any more: " +
	"the log says how each ended")

// Child is the process that is kept alive.
type Child interface {
	Kill()
	// Wait returns when the process is gone, and says how it ended. It is called once.
	Wait() error
}

// Config is how a keeper is set up.
type Config struct {
	// Start starts a child with its end of the connection, which the caller keeps.
	Start func(control *os.File) (Child, error)
	// After so many Crashes within Window no child is started any more; 0: the defaults.
	Crashes int
	Window  time.Duration
	// Pause is the wait after the second crash, and doubles with each later one: after the first
	// there is none. 0: the default.
	Pause time.Duration
	// Ready is called when a child says that it is ready; nil: nothing is called.
	Ready func()
	// Replacing is called before a child is killed that is to be replaced, or the next one is
	// started in its place; nil: nothing is called. It mustn't call the keeper.
	Replacing func()
	Log       logrus.FieldLogger
	Clock     pace.Clock // nil: the real one
}

// Keeper keeps one process alive.
type Keeper struct {
	Config
	held    map[uint32]int
	crashes []time.Time // the recent ones
	spares  spares
	retries

	mu       sync.Mutex
	lacks    bool  // a descriptor couldn't be kept: this child is the last; guarded by mu
	child    Child // guarded by mu; nil: there is none
	starting bool  // one is being started; guarded by mu
	whole    bool  // all that another child needs is kept, as one has said; guarded by mu
	asked    bool  // the child is to be replaced as soon as it can be; guarded by mu
	replaced bool  // the child was ended by Replace; guarded by mu
	serves   bool  // the child has said that it is ready; guarded by mu
	last     bool  // no other child follows; guarded by mu
}

// New makes a keeper.
func New(c Config) *Keeper {
	c.Crashes, c.Window = cmp.Or(c.Crashes, DefaultCrashes), cmp.Or(c.Window, DefaultWindow)
	c.Pause = cmp.Or(c.Pause, DefaultPause)
	if c.Clock == nil {
		c.Clock = pace.Real
	}
	return &Keeper{Config: c, held: map[uint32]int{}}
}

// Run starts one child after the other, until one ends for good (how it ended), ctx is done (its
// error; the child is killed), or they crash too often (ErrCrashes). Afterwards nothing is kept.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.dropAll()
	defer k.spares.give()
	for trial := false; ; {
		err := k.one(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case k.wasReplaced() && !k.isLacking():
			if len(k.held) == 0 { // nothing is kept: it ends for good
				return nil
			}
			k.Log.Info("the process was ended to be replaced: the next one goes on")
			trial = true
			continue
		case len(k.held) == 0, k.isLast():
			return err
		case isShortage(err):
			if err := k.sitOut(ctx, err); err != nil {
				return err
			}
			continue
		case trial && !k.isServing():
			k.Log.WithError(orEnded(err)).Error("the process that was to take another one's " +
				"place didn't go on: nothing has changed, and the next one goes on instead")
			trial = false
			continue
		}
		trial = false
		if err := k.crashed(ctx, err); err != nil {
			return err
		}
	}
}

// Replace ends the child, and another one goes on, unless a descriptor couldn't be kept. That isn't
// a crash. A child that is being started is ended then; the very first one as soon as it is ready.
// Replace does nothing after a child has ended for good.
func (k *Keeper) Replace() {
	if k.isLacking() {
		k.Log.Error("the process isn't replaced: what it has couldn't be kept for the next one")
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.child == nil && !k.starting {
		k.replacing() // the next child, which is about to start, will do
		return
	}
	k.asked = true
	k.replace()
}

// replace ends a child that is to be replaced, if it can be. The caller holds mu.
func (k *Keeper) replace() {
	if k.child != nil && k.whole {
		k.asked, k.replaced = false, true
		k.replacing()
		k.child.Kill()
	}
}

func (k *Keeper) replacing() {
	if k.Replacing != nil {
		k.Replacing()
	}
}

// isServing says whether the last child has said that it is ready.
func (k *Keeper) isServing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.serves
}

// keptAll notes whether all that another child needs is kept: that is so from when a child is ready
// until one ends for good.
func (k *Keeper) keptAll(is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serves = k.serves || is
	if k.whole = is; k.asked {
		k.replace()
	}
}

// Last lets no other child follow, however the current one ends: it is about to be told to end.
func (k *Keeper) Last() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = true
}

// lack notes that there is no room for a descriptor. All or nothing is kept: with a part the next
// child couldn't go on.
func (k *Keeper) lack() {
	k.dropAll()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lacks {
		k.lacks = true
		k.Log.Error("there are no descriptors left to keep what the process has: it goes on, " +
			"but no other follows when it ends")
	}
}

func (k *Keeper) isLacking() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lacks
}

func (k *Keeper) isLast() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

func (k *Keeper) wasReplaced() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked { // it has ended by itself
		k.replacing()
	}
	was := k.replaced && !k.last
	k.replaced, k.asked = false, false
	return was
}

// setChild notes which child there is, or that one is being started.
func (k *Keeper) setChild(c Child, starting bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.child, k.starting = c, starting
	k.serves = k.serves && !starting
	if k.asked {
		k.replace()
	}
}

// crashed waits before the next child is started, or says that there won't be one.
func (k *Keeper) crashed(ctx context.Context, how error) error {
	now := k.Clock.Now()
	k.crashes = append(slices.DeleteFunc(k.crashes, func(t time.Time) bool {
		return now.Sub(t) >= k.Window
	}), now)
	n := len(k.crashes)
	if n >= k.Crashes {
		return fmt.Errorf("%w (%d times in %v, now: %w)", ErrCrashes, n, k.Window, orEnded(how))
	}
	k.Log.WithError(orEnded(how)).WithField("crashes", n).
		Error("the process crashed: the next one goes on where it stood")
	if n > 1 {
		select {
		case <-k.Clock.After(k.Pause << min(n-2, maxDoubled)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// errEnded is the crash of a process that ended without an error, but still had descriptors kept.
var errEnded = errors.New("it ended without an error, but not as asked")

func orEnded(how error) error { return cmp.Or(how, errEnded) }

// one starts a child, gives it what is kept, obeys it, and returns how it ended.
func (k *Keeper) one(ctx context.Context) error {
	k.spares.give()
	conn, file, err := socket.Connect(socket.Packets)
	if err != nil {
		return err
	}
	defer conn.Close()
	k.setChild(nil, true)
	child, err := k.Start(file)
	_ = file.Close()
	if err != nil {
		k.setChild(nil, false)
		return fmt.Errorf("start the process: %w", err)
	}
	k.spares.take()
	k.tries = 0
	k.setChild(child, false)
	stop := context.AfterFunc(ctx, child.Kill)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := child.Wait()
		k.setChild(nil, false)
		_ = conn.SetDeadline(time.Unix(1, 0)) // ends the wait for the child
		ended <- err
	}()
	broken := k.serve(conn)
	if broken != nil {
		child.Kill()
	}
	how := <-ended
	if broken == nil {
		broken = k.drain(conn)
	}
	return cmp.Or(broken, how)
}

// serve obeys a child until it is gone. The error is its fault.
func (k *Keeper) serve(conn *net.UnixConn) error {
	for number, fd := range k.held {
		if err := send(conn, message{kept, number, fd}); err != nil {
			return nil
		}
	}
	if err := send(conn, message{begin, uint32(len(k.crashes)), -1}); err != nil {
		return nil
	}
	for {
		m, err := receive(conn)
		if err == nil {
			err = k.obey(m)
		}
		switch {
		case errors.Is(err, errNoRoom):
			k.lack()
		case errors.Is(err, errMessage):
			return err
		case err != nil:
			return nil
		}
	}
}

// drain obeys what a child had sent before it ended, as far as it may keep so much.
func (k *Keeper) drain(conn *net.UnixConn) error {
	for range MaxKept {
		m, err := receiveNow(conn)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, unix.ECONNRESET): // the child didn't read everything
			continue
		case errors.Is(err, errNoRoom):
			k.lack()
			continue
		}
		if err == nil {
			err = k.obey(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// obey does what a message asks for.
func (k *Keeper) obey(m message) error {
	switch m.kind {
	case keep:
		if k.isLacking() {
			handover.CloseFiles([]int{m.fd})
			return nil
		}
		old, is := k.held[m.number]
		if !is && len(k.held) == MaxKept {
			handover.CloseFiles([]int{m.fd})
			return fmt.Errorf("%w: more than %d descriptors", errMessage, MaxKept)
		}
		if is {
			handover.CloseFiles([]int{old})
		}
		k.held[m.number] = m.fd
	case drop:
		k.drop(m.number)
	case dropAll:
		k.dropAll()
		k.keptAll(false)
	case ready:
		k.keptAll(true)
		if k.Ready != nil {
			k.Ready()
		}
	case replace: // it may be replaced
		k.keptAll(true)
		k.Replace()
	default:
		handover.CloseFiles([]int{m.fd})
		return fmt.Errorf("%w: kind %d from a child", errMessage, m.kind)
	}
	return nil
}

// drop closes a descriptor, if it is kept.
func (k *Keeper) drop(number uint32) {
	if fd, is := k.held[number]; is {
		handover.CloseFiles([]int{fd})
		delete(k.held, number)
	}
}

func (k *Keeper) dropAll() {
	for number := range k.held {
		k.drop(number)
	}
}
