// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// HostFunc implements gpubackend.Driver. In a context that failed, f is not called and release does nothing.
func (d *Device) HostFunc(h gpubackend.Stream, token uint64, f func(uint64)) (func(), gpubackend.Result) {
	s, result := d.target(h)
	if result != gpubackend.Success {
		return nil, result
	}
	if result := s.refuse(); result != gpubackend.Success {
		return nil, result
	}
	t := &scheduler.Task{Class: scheduler.Host, Run: func() { f(token) }}
	d.enqueue(s, t)
	return func() { d.scheduler.Release(t) }, gpubackend.Success
}

// HostFuncKept implements gpubackend.Capturing.
func (d *Device) HostFuncKept(h gpubackend.Stream, token uint64, f gpubackend.HostCall) gpubackend.Result {
	s, result := d.target(h)
	if result != gpubackend.Success {
		return result
	}
	n := &gpubackend.Node{Type: gpubackend.NodeHost, Token: token, Call: f}
	if s.capture != nil {
		return d.record(s, n)
	}
	d.enqueue(s, d.hostTask(n, s.ctx))
	return gpubackend.Success
}

// hostTask makes the task of a host function of a graph.
func (d *Device) hostTask(n *gpubackend.Node, c *contexts.Context) *scheduler.Task {
	t := &scheduler.Task{Class: scheduler.Host, Domain: c.Domain}
	token, call := n.Token, n.Call
	t.Run = func() { call(token, func() { d.scheduler.Release(t) }) }
	return t
}
