// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	sizes "github.com/paracuda/paracuda/gpubackend/size"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A VM is suspended in steps, each of which all workers take before the next: their work ends; it
// is seen whether the host has room for their device memory; it is moved out. What fails is undone,
// and the VM runs on. To resume it is the reverse. Workers that end meanwhile need nothing more;
// those that start begin as ones whose work has ended.

// Moved is how a VM was suspended or resumed.
type Moved struct {
	Bytes uint64        `json:"bytes"` // that were moved
	Stays uint64        `json:"stays"` // on the GPU, when it was suspended
	Took  time.Duration `json:"took"`
}

// Progress is how much has been moved.
type Progress struct {
	Done uint64 `json:"done"`
	All  uint64 `json:"all"` // 0: that isn't known yet
}

// SuspendState is whether a VM is suspended, and how much of the host's memory that takes.
type SuspendState struct {
	State suspend.State `json:"state"`
	Image uint64        `json:"image"`
}

// movement counts what is moved, for others to read.
type movement struct{ done, all atomic.Uint64 }

// errMoving is wrapped by errors after which the VM is as it was before.
var errMoving = errors.New("device memory isn't moved")

// slowest is how many bytes are moved in a second at the least: a worker that takes longer hangs.
const slowest = 100 << 20

// progressPause is between two answers about progress.
const progressPause = 250 * time.Millisecond

// atLength suspends or resumes, and tells now and then how far it is.
func (d *Device) atLength(r Request, tell func(*Progress)) (a Answer) {
	var p movement
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Error = "a fault: the log has it"
		d.guard("a suspension", func() { a = d.change(r, &p) })
	}()
	ticker := time.NewTicker(progressPause)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return a
		case <-ticker.C:
			tell(&Progress{p.done.Load(), p.all.Load()})
		}
	}
}

// change is the answer to a request to suspend or to resume.
func (d *Device) change(r Request, p *movement) (a Answer) {
	begin, to, work := time.Now(), suspend.Suspending, d.moveAllOut
	if r.Resume {
		to, work = suspend.Resuming, d.moveAllIn
	}
	if err := d.suspending.Begin(to); err != nil {
		a.Error = err.Error()
		return a
	}
	done := false
	defer func() { d.suspending.End(done) }()
	moved, err := work(p)
	done = err == nil
	if errors.Is(err, errStranded) { // what is out is out: that is what being suspended is
		done = true
	}
	if err != nil {
		a.Error = err.Error()
		d.log.WithError(err).Warnf("the VM is not %s", to)
		return a
	}
	moved.Took = time.Since(begin)
	d.log.WithField("bytes", moved.Bytes).Infof("the VM was %s", to)
	a.Moved = &moved
	return a
}

// suspendState is what is told of the VM.
func (d *Device) suspendState() *SuspendState {
	s := &SuspendState{State: d.suspending.State()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, bytes := range d.moved {
		s.Image += bytes
	}
	return s
}

// moveAllOut suspends the VM.
func (d *Device) moveAllOut(p *movement) (m Moved, err error) {
	going := false
	defer func() {
		if !going {
			d.letGo()
		}
	}()
	plans, err := d.drainAll()
	if err != nil {
		return m, err
	}
	m.Bytes = sum(plans)
	p.all.Store(m.Bytes)
	if err := d.roomFor(m.Bytes); err != nil {
		return m, err
	}
	for w, bytes := range plans {
		if err := d.moveOut(w, bytes); err != nil {
			back := d.bringBack()
			going = back != nil
			return m, errors.Join(fmt.Errorf("%w: %w", errMoving, err), back)
		}
		p.done.Add(bytes)
	}
	going = true
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, bytes := range d.kinds() {
		m.Stays += bytes
	}
	return m, nil
}

// sum is how many bytes there are in all, or the most that a number holds: workers may lie.
func sum(plans map[*workerProcess]uint64) (all uint64) {
	for _, bytes := range plans {
		if all += bytes; all < bytes {
			return math.MaxUint64
		}
	}
	return all
}

// drainAll has the work of all workers end, and returns how much each has to move. Workers that
// start from now on begin nothing.
func (d *Device) drainAll() (plans map[*workerProcess]uint64, err error) {
	d.mu.Lock()
	d.held = true
	d.drains++
	m := handover.Message{Kind: handover.KindDrain, Grace: d.settings.StopGrace, Turn: d.drains}
	d.retireWarm(0)
	workers := d.serving()
	d.mu.Unlock()
	plans = make(map[*workerProcess]uint64)
	var busy []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() {
			d.guard("draining a worker", func() {
				<-w.start
				ask := m
				a, err := w.conn.consult(&ask, nil, handover.KindDrained,
					m.Grace+d.config.Timeouts.Answer)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					plans[w] = a.Bytes
				case !d.isGone(w, err):
					busy = append(busy, fmt.Sprintf("%s (pid %d): %v", w.comm, w.pid, err))
				}
			})
		})
	}
	all.Wait()
	if len(busy) > 0 {
		slices.Sort(busy)
		return nil, fmt.Errorf("busy: %w: %s: stop-grace=%v is how long work may take",
			errMoving, strings.Join(busy, ", "), m.Grace)
	}
	return plans, nil
}

// serving are the workers that have a channel. Device.mu is held.
func (d *Device) serving() (list []*workerProcess) {
	for _, c := range d.channels {
		if c.worker != nil {
			list = append(list, c.worker)
		}
	}
	return list
}

// isGone says whether a worker that didn't do what it was asked, and why, has ended or is about to.
func (d *Device) isGone(w *workerProcess, err error) bool {
	d.mu.Lock()
	closing := w.closing
	d.mu.Unlock()
	return w.killed.Load() || errors.Is(err, errGone) ||
		closing && within(d.config.Timeouts.Stop, w.gone) || within(lastWords, w.gone)
}

// roomFor says whether the host has room for so much.
func (d *Device) roomFor(bytes uint64) error {
	d.mu.Lock()
	bound := d.settings.SuspendMemory
	d.mu.Unlock()
	if bound != 0 && bytes > bound {
		return fmt.Errorf("%w: it is %d bytes: suspend-memory=%s allows less",
			errMoving, bytes, sizes.Format(bound))
	}
	switch room, err := d.config.HostMemory(); {
	case err != nil:
		return fmt.Errorf("%w: %w", errMoving, err)
	case bytes > room:
		return fmt.Errorf("%w: it is %d bytes, and the host has %d for it", errMoving, bytes, room)
	}
	return nil
}

// moveOut has a worker that is drained move its memory out. One that has ended has none.
func (d *Device) moveOut(w *workerProcess, bytes uint64) error {
	if bytes == 0 {
		return nil
	}
	return d.move(w, bytes, &handover.Message{Kind: handover.KindMoveOut, Bytes: bytes})
}

// move has a worker move its memory, and notes where it is then. One that hangs is killed: nobody
// knows what it has done.
func (d *Device) move(w *workerProcess, bytes uint64, m *handover.Message) error {
	want, out := handover.KindMovedIn, false
	if m.Kind == handover.KindMoveOut {
		want, out = handover.KindMovedOut, true
	}
	limit := d.config.Timeouts.Answer + time.Duration(bytes/slowest)*time.Second
	err := w.conn.request(m, nil, want, limit)
	switch {
	case err == nil:
	case d.isGone(w, err):
		return nil
	case errors.Is(err, errRefused):
		return fmt.Errorf("%s (pid %d): %w", w.comm, w.pid, err)
	default:
		d.log.WithError(err).WithField("program", w.comm).Warn("a worker doesn't move device " +
			"memory: it is killed")
		w.kill()
		d.awaitEnd(w)
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !out:
		delete(d.moved, w)
	case d.workers[w]:
		d.moved[w] = bytes
	}
	return nil
}

// errStranded says that memory which was moved out can't come back now.
var errStranded = errors.New("what was moved out can't be moved in again: the VM is suspended: " +
	"paracuda resume tries once more")

// bringBack moves in again what is out, after a failure.
func (d *Device) bringBack() error {
	for w, bytes := range d.out() {
		if err := d.move(w, bytes, &handover.Message{Kind: handover.KindMoveIn}); err != nil {
			return fmt.Errorf("%w: %w", errStranded, err)
		}
	}
	return nil
}

// out are the workers whose memory is out, with how much that is.
func (d *Device) out() map[*workerProcess]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.moved)
}

// moveAllIn resumes the VM. Where there is no room for all, what came in goes out again.
func (d *Device) moveAllIn(p *movement) (m Moved, err error) {
	all := d.out()
	for _, bytes := range all {
		p.all.Add(bytes)
	}
	in := make(map[*workerProcess]uint64)
	for w, bytes := range all {
		if err := d.move(w, bytes, &handover.Message{Kind: handover.KindMoveIn}); err != nil {
			for w, bytes := range in {
				_ = d.move(w, bytes, &handover.Message{Kind: handover.KindMoveOut})
			}
			return m, fmt.Errorf("%w: %w: nothing is lost: try again when there is room",
				errMoving, err)
		}
		in[w] = bytes
		m.Bytes += bytes
		p.done.Add(bytes)
	}
	d.letGo()
	return m, nil
}

// letGo has all workers go on.
func (d *Device) letGo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = false
	for _, w := range d.serving() {
		w.tell(d.log, &handover.Message{Kind: handover.KindGoOn}, nil)
	}
	d.refill()
}
