// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// Launches that come again in the same order cost a third as a graph: the driver submits a chain of kernel nodes at
// once, after the parameters that differ have been patched (docs/performance.md). What counts as the same are functions, shapes
// and the sizes of parameters.
const (
	minReplay = 16                 // shorter sequences gain nothing
	maxReplay = driver.MaxLaunches // nodes of a graph
	maxGraphs = 64
	maxNotes  = 1024 // sequences that were seen once
)

// sequence is what is known of a sequence of launches.
type sequence struct {
	shape      []shape
	graph      *driver.Chain
	parameters []byte // as the graph's nodes have them
	used       uint64 // when it was replayed last
}

// shape is what has to be the same in a replay.
type shape struct {
	function    gpubackend.Function
	grid, block [3]uint32
	shared      uint32
	bytes       int
}

func shapeOf(l *gpubackend.Launch) shape {
	return shape{l.Function, l.Grid, l.Block, l.Shared, len(l.Parameters)}
}

// replays remembers the sequences of the current context's launches.
type replays struct {
	context gpubackend.Context
	known   map[uint64]*sequence // by hash of its shapes
	noted   map[uint64]struct{}  // seen once
	graphs  int
	clock   uint64
	off     bool
	sums    [maxReplay + 1]uint64 // hash of each prefix of the launches at hand
	changed [maxReplay]byte
}

// LaunchAll implements gpubackend.Driver.
func (d *Device) LaunchAll(ls []gpubackend.Launch) (queued int, result gpubackend.Result) {
	for len(ls) > 0 {
		n := d.replays.choose(d, ls)
		if n > 0 && d.replay(ls[:n]) {
			queued += n
			ls = ls[n:]
			continue
		}
		n = min(len(ls), maxReplay)
		done, result := d.launchPlain(ls[:n])
		queued += done
		if result != gpubackend.Success {
			return queued, result
		}
		ls = ls[n:]
	}
	return queued, gpubackend.Success
}

// choose returns how many of the launches to replay as a graph, 0 for none, and notes what it sees for the first time.
// Considered are all of them, and as many as a power of two: programs repeat whole sequences, or one kernel.
func (r *replays) choose(d *Device, ls []gpubackend.Launch) int {
	n := min(len(ls), maxReplay)
	if n < minReplay || r.off || d.references || len(d.capturing) > 0 || !d.options.GraphReplay || !d.CanChain() {
		return 0
	}
	if r.context != d.current {
		d.forgetReplays()
		r.context = d.current
	}
	r.hash(ls[:n])
	power := minReplay
	for 2*power <= n {
		power *= 2
	}
	for _, length := range [...]int{n, power} {
		if s := r.known[r.sums[length]]; s != nil && s.matches(ls[:length]) {
			return length
		}
	}
	for _, length := range [...]int{n, power} {
		if _, seen := r.noted[r.sums[length]]; seen {
			return length
		}
	}
	r.note(r.sums[n])
	r.note(r.sums[power])
	return 0
}

func (r *replays) note(sum uint64) {
	if r.noted == nil {
		r.noted = map[uint64]struct{}{}
	}
	if len(r.noted) >= maxNotes {
		clear(r.noted)
	}
	r.noted[sum] = struct{}{}
}

// hash fills sums.
func (r *replays) hash(ls []gpubackend.Launch) {
	h := uint64(14695981039346656037)
	mix := func(v uint64) {
		h ^= v
		h *= 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	for i := range ls {
		l := &ls[i]
		mix(uint64(l.Function))
		mix(uint64(l.Grid[0]) | uint64(l.Grid[1])<<32)
		mix(uint64(l.Grid[2]) | uint64(l.Block[0])<<32)
		mix(uint64(l.Block[1]) | uint64(l.Block[2])<<32)
		mix(uint64(l.Shared) | uint64(len(l.Parameters))<<32)
		r.sums[i+1] = h
	}
}

func (s *sequence) matches(ls []gpubackend.Launch) bool {
	if len(s.shape) != len(ls) {
		return false
	}
	for i := range ls {
		if s.shape[i] != shapeOf(&ls[i]) {
			return false
		}
	}
	return true
}

// replay launches a sequence as a graph, building it first if need be. false: it was not launched, do it plainly.
func (d *Device) replay(ls []gpubackend.Launch) bool {
	r := &d.replays
	sum := r.sums[len(ls)]
	if d.Pack(ls) < len(ls) {
		return false
	}
	s := r.known[sum]
	if s == nil || !s.matches(ls) {
		if s = d.buildSequence(ls); s == nil {
			return false
		}
		r.add(d, sum, s)
	}
	r.clock++
	s.used = r.clock
	changed := r.changed[:len(ls)]
	packed := d.Packed()
	at := 0
	for i := range ls {
		n := driver.Padded(len(ls[i].Parameters))
		changed[i] = 0
		if !bytes.Equal(s.parameters[at:at+n], packed[at:at+n]) {
			changed[i] = 1
		}
		at += n
	}
	copy(s.parameters, packed)
	if d.LaunchChain(s.graph, changed) != gpubackend.Success {
		// A node that can't be patched: the graph is of no use, and the launches' own results tell why.
		r.drop(d, sum)
		return false
	}
	return true
}

// buildSequence makes the graph of launches that are packed. nil: they can't be a graph.
func (d *Device) buildSequence(ls []gpubackend.Launch) *sequence {
	g := d.BuildChain(len(ls))
	if g == nil {
		d.replays.off = d.replays.graphs == 0
		return nil
	}
	s := &sequence{graph: g, parameters: append([]byte(nil), d.Packed()...)}
	for i := range ls {
		s.shape = append(s.shape, shapeOf(&ls[i]))
	}
	return s
}

// add remembers a sequence, forgetting the one that was replayed the longest time ago if there are too many.
func (r *replays) add(d *Device, sum uint64, s *sequence) {
	if r.known == nil {
		r.known = map[uint64]*sequence{}
	}
	r.drop(d, sum)
	for r.graphs >= maxGraphs {
		oldest, used := uint64(0), ^uint64(0)
		for k, x := range r.known {
			if x.used < used {
				oldest, used = k, x.used
			}
		}
		r.drop(d, oldest)
	}
	r.known[sum] = s
	r.graphs++
}

func (r *replays) drop(d *Device, sum uint64) {
	if s := r.known[sum]; s != nil {
		d.FreeChain(s.graph)
		delete(r.known, sum)
		r.graphs--
	}
}

// forgetReplays drops all graphs: their functions, attributes or context change or end.
func (d *Device) forgetReplays() {
	for sum := range d.replays.known {
		d.replays.drop(d, sum)
	}
	clear(d.replays.noted)
	d.replays.off = !d.options.GraphReplay
}
