// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
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
	release, r := v.Once(x.calls.LaunchHostFunc(), s, token, f)
	return release, x.contexts.Failed(r)
}

// HostFuncKept implements gpubackend.Capturing.
func (x *Streams) HostFuncKept(
	s gpubackend.Stream, token uint64, f gpubackend.HostCall,
) gpubackend.Result {
	v, r := x.hostCalls()
	if r != gpubackend.Success {
		return r
	}
	x.calls.Touch(s)
	return x.contexts.Failed(v.Kept(x.calls.LaunchHostFunc(), s, token, f))
}

// HostNode gives the function and its data for a host node of a graph.
func (x *Streams) HostNode(
	token uint64, f gpubackend.HostCall,
) (function, data uint64, r gpubackend.Result) {
	v, r := x.hostCalls()
	if r == gpubackend.Success {
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
