// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/launches"
)

// replays are the graphs of the current context's launches that come again (package launches). The
// driver submits a chain of kernel nodes at once, after the parameters that differ have been patched.
type replays struct {
	context gpubackend.Context
	cache   launches.Cache[*driver.Chain]
	off     bool
	changed [launches.MaxBatch]byte
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
		n = min(len(ls), launches.MaxBatch)
		done, result := d.launchPlain(ls[:n])
		queued += done
		if result != gpubackend.Success {
			return queued, result
		}
		ls = ls[n:]
	}
	return queued, gpubackend.Success
}

// choose returns how many of the launches to replay as a graph, 0 for none.
func (r *replays) choose(d *Device, ls []gpubackend.Launch) int {
	if len(ls) < launches.MinReplay || r.off || d.references || len(d.capturing) > 0 ||
		!d.options.GraphReplay || !d.CanChain() {
		return 0
	}
	if r.context != d.current {
		d.forgetReplays()
		r.context = d.current
	}
	return r.cache.Choose(ls)
}

// replay launches a sequence as a graph, building it first if need be. false: it was not launched, do it plainly.
func (d *Device) replay(ls []gpubackend.Launch) bool {
	r := &d.replays
	if d.Pack(ls) < len(ls) {
		return false
	}
	s := r.cache.Find(ls)
	if s == nil {
		if s = d.buildSequence(ls); s == nil {
			return false
		}
	}
	changed := r.changed[:len(ls)]
	packed := d.Packed()
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
	if d.LaunchChain(s.Graph, changed) != gpubackend.Success {
		// A node that can't be patched: the graph is of no use, and the launches' own results tell why.
		r.cache.Remove(ls)
		return false
	}
	return true
}

// buildSequence makes the graph of launches that are packed. nil: they can't be a graph.
func (d *Device) buildSequence(ls []gpubackend.Launch) *launches.Sequence[*driver.Chain] {
	cache := &d.replays.cache
	g := d.BuildChain(len(ls))
	if g == nil {
		d.replays.off = cache.Len() == 0
		return nil
	}
	cache.Free = d.FreeChain
	return cache.Add(ls, g, append([]byte(nil), d.Packed()...))
}

// forgetReplays drops all graphs: their functions, attributes or context change or end.
func (d *Device) forgetReplays() {
	d.replays.cache.Forget()
	d.replays.off = !d.options.GraphReplay
}
