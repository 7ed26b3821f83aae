// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfuncs"
)

// HostFunc calls f on a goroutine when the stream gets there; the stream waits for release.
func (x *Streams) HostFunc(
	s gpubackend.Stream, token uint64, f func(token uint64),
) (func(), gpubackend.Result) {
	v, r := x.hostCalls()
	if r != gpubackend.Success {
		return nil, r
	}
	x.calls.Touch(s)
	release, r := v.Once(x.calls.LaunchHostFunc(), x.contexts.CurrentHandle(), s, token, f)
	return release, x.contexts.Failed(r)
}

// AwaitsHost says whether all work under way is host functions that were called and haven't
// returned. Nothing goes on in a stream that is held by one. ofGraphs are the streams that are held
// by those of graphs, by the functions' tokens. AwaitsHost may be false where it could be true: the
// driver doesn't say which streams wait for another one.
func (x *Streams) AwaitsHost(ofGraphs func(due []uint64) []activity.Place) bool {
	if x.host == nil {
		return false
	}
	held := map[activity.Place]struct{}{}
	for _, at := range append(x.host.Held(), ofGraphs(x.host.Due())...) {
		held[at] = struct{}{}
	}
	if len(held) == 0 {
		return false
	}
	for c := range x.contexts.All() {
		if c.Work.Busy() && x.contexts.In(c, func() gpubackend.Result {
			return x.queryBeside(c, held)
		}) != gpubackend.Success {
			return false
		}
	}
	return true
}

// queryBeside asks the busy streams of the current context, but not those that are held.
func (x *Streams) queryBeside(
	c *contexts.Context, held map[activity.Place]struct{},
) gpubackend.Result {
	if c.Work.Marks() > 0 {
		return gpubackend.NotReady
	}
	for s := range c.Work.Streams() {
		captured, r := x.isCapturing(s)
		if r != gpubackend.Success {
			return r
		}
		if _, ok := held[activity.At(c.Handle, s)]; ok || captured { // asking would end the capture
			continue
		}
		if r := x.calls.StreamQuery(s); r != gpubackend.Success {
			return x.contexts.Failed(r)
		}
	}
	return gpubackend.Success
}

// Keeps says whether there was ever a host function of a graph.
func (x *Streams) Keeps() bool { return x.keeps }

// HostFuncKept implements gpubackend.Capturing.
func (x *Streams) HostFuncKept(
	s gpubackend.Stream, token uint64, f gpubackend.HostCall,
) gpubackend.Result {
	v, r := x.hostCalls()
	if r != gpubackend.Success {
		return r
	}
	captured, r := x.isCapturing(s)
	x.keeps = true
	x.calls.Touch(s)
	return x.contexts.Failed(
		v.Kept(x.calls.LaunchHostFunc(), s, captured && r == gpubackend.Success, token, f))
}

// HostNode gives the function and its data for a host node of a graph.
func (x *Streams) HostNode(
	token uint64, f gpubackend.HostCall,
) (function, data uint64, r gpubackend.Result) {
	v, r := x.hostCalls()
	if r == gpubackend.Success {
		x.keeps = true
		function, data = v.Node(token, f)
	}
	return function, data, r
}

// hostCalls returns what carries calls of host functions, which it makes at first use.
func (x *Streams) hostCalls() (*hostfuncs.Calls, gpubackend.Result) {
	if x.calls.LaunchHostFunc() == nil {
		return nil, gpubackend.NotSupported
	}
	if x.host == nil {
		v, err := hostfuncs.New()
		if err != nil {
			x.log.WithError(err).Error("a stream can't call host functions")
			return nil, gpubackend.OutOfMemory
		}
		x.host = v
	}
	return x.host, gpubackend.Success
}

// ReleaseAll lets streams that wait for host functions go on.
func (x *Streams) ReleaseAll() {
	if x.host != nil {
		x.host.Close()
	}
}
