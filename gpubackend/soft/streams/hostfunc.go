// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// HostFunc implements gpubackend.Driver. In a context that failed, f is not called and release does
// nothing.
func (x *Streams) HostFunc(
	h gpubackend.Stream, token uint64, f func(uint64),
) (func(), gpubackend.Result) {
	s, result := x.Target(h)
	if result != gpubackend.Success {
		return nil, result
	}
	if result := s.Refuse(); result != gpubackend.Success {
		return nil, result
	}
	t := &scheduler.Task{Class: scheduler.Host, Run: func() { f(token) }}
	x.Enqueue(s, t)
	return func() { x.options.Scheduler.Release(t) }, gpubackend.Success
}

// HostFuncKept implements gpubackend.Capturing.
func (x *Streams) HostFuncKept(
	h gpubackend.Stream, token uint64, f gpubackend.HostCall,
) gpubackend.Result {
	s, result := x.Target(h)
	if result != gpubackend.Success {
		return result
	}
	n := &gpubackend.Node{Type: gpubackend.NodeHost, Token: token, Call: f}
	if s.capture != nil {
		return x.Record(s, n)
	}
	x.Enqueue(s, x.hostTask(n, s.ctx))
	return gpubackend.Success
}

// PrepareHost prepares a node of a graph that calls the host.
func (x *Streams) PrepareHost(
	n *gpubackend.Node, c *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	return func() *scheduler.Task { return x.hostTask(n, c) }, gpubackend.Success
}

// hostTask makes the task of a host function of a graph.
func (x *Streams) hostTask(n *gpubackend.Node, c *contexts.Context) *scheduler.Task {
	t := &scheduler.Task{Class: scheduler.Host, Domain: c.Domain}
	token, call := n.Token, n.Call
	t.Run = func() { call(token, func() { x.options.Scheduler.Release(t) }) }
	return t
}
