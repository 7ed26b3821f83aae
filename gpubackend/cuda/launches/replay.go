// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/launches"
)

// SeriesCalls are graphs of launches that were packed.
type SeriesCalls interface {
	Pack(ls []gpubackend.Launch) int
	Packed() []byte
	CanMakeSeries() bool
	BuildSeries(n int) *driver.Series
	LaunchSeries(c *driver.Series, changed []byte) gpubackend.Result
	FreeSeries(c *driver.Series)
}

// replays are graphs of launches of the current context that come again; gpubackend/launches has
// the policy. The driver submits a series of kernel nodes at once, after the parameters that differ
// have been patched.
type replays struct {
	calls   SeriesCalls
	never   bool // the driver can't, or nobody wants it
	off     bool // no graph could be made
	context gpubackend.Context
	cache   launches.Cache[*driver.Series]
	changed [launches.MaxBatch]byte
}

// LaunchAll implements gpubackend.Driver.
func (x *Launches) LaunchAll(ls []gpubackend.Launch) (queued int, result gpubackend.Result) {
	for len(ls) > 0 {
		n := x.choose(ls)
		if n > 0 && x.replays.launch(ls[:n]) {
			queued += n
			ls = ls[n:]
			continue
		}
		n = min(len(ls), launches.MaxBatch)
		done, result := x.launchPlain(ls[:n])
		queued += done
		if result != gpubackend.Success {
			return queued, result
		}
		ls = ls[n:]
	}
	return queued, gpubackend.Success
}

// choose returns how many of the launches to replay as a graph, 0 for none.
func (x *Launches) choose(ls []gpubackend.Launch) int {
	r := &x.replays
	if len(ls) < launches.MinReplay || r.never || r.off || x.capturing() {
		return 0
	}
	if c := x.contexts.CurrentHandle(); r.context != c {
		x.Forget()
		r.context = c
	}
	return r.cache.Choose(ls)
}

// Forget drops all graphs: their functions, attributes or context change or end.
func (x *Launches) Forget() {
	x.replays.cache.Forget()
	x.replays.off = false
}

// EndReplays ends replaying for good.
func (x *Launches) EndReplays() { x.replays.never = true }

// launch launches a sequence that was chosen as a graph, building it first if need be. It returns
// false if nothing was launched: then each is launched by itself.
func (r *replays) launch(ls []gpubackend.Launch) bool {
	if r.calls.Pack(ls) < len(ls) {
		return false
	}
	s := r.cache.Find(ls)
	if s == nil {
		if s = r.build(ls); s == nil {
			return false
		}
	}
	if r.calls.LaunchSeries(s.Graph, r.patch(s, ls)) != gpubackend.Success {
		// A node that can't be patched: the graph is of no use, and the launches' own results tell
		// why.
		r.cache.Remove(ls)
		return false
	}
	return true
}

// patch says of which launches the parameters differ from those of the graph's nodes, which get
// them.
func (r *replays) patch(s *launches.Sequence[*driver.Series], ls []gpubackend.Launch) []byte {
	changed, packed := r.changed[:len(ls)], r.calls.Packed()
	at := 0
	for i := range ls {
		n := driver.Padded(len(ls[i].Parameters))
		changed[i] = 0
		if !bytes.Equal(s.Parameters[at:at+n], packed[at:at+n]) {
			changed[i] = 1
		}
		at += n
	}
	copy(s.Parameters, packed)
	return changed
}

// build makes the graph of launches that are packed. It returns nil if they can't be a graph.
func (r *replays) build(ls []gpubackend.Launch) *launches.Sequence[*driver.Series] {
	g := r.calls.BuildSeries(len(ls))
	if g == nil {
		r.off = r.cache.Len() == 0
		return nil
	}
	return r.cache.Add(ls, g, append([]byte(nil), r.calls.Packed()...))
}
