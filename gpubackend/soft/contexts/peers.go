// SPDX-License-Identifier: Apache-2.0

package contexts

import "github.com/paracuda/paracuda/gpubackend"

// Kernels are told apart by their GPU alone: when one context gets access to another GPU's memory,
// all contexts of its own GPU have it.

// MayReach says whether kernels of one GPU may be given the memory of another, or its own.
func (x *Contexts) MayReach(from, of int) bool { return from == of || !x.options.Apart }

// CtxEnablePeerAccess implements gpubackend.Driver.
func (x *Contexts) CtxEnablePeerAccess(h gpubackend.Context, flags uint64) gpubackend.Result {
	c, peer, result := x.peer(h)
	switch {
	case result != gpubackend.Success:
		return result
	case flags != 0:
		return gpubackend.InvalidValue
	case c.GPU == peer.GPU || !x.MayReach(c.GPU, peer.GPU):
		return gpubackend.PeerAccessUnsupported
	case x.peers.Has(c, peer):
		return gpubackend.PeerAccessAlreadyEnabled
	}
	return x.peers.Give(c, peer)
}

// CtxDisablePeerAccess implements gpubackend.Driver.
func (x *Contexts) CtxDisablePeerAccess(h gpubackend.Context) gpubackend.Result {
	c, peer, result := x.peer(h)
	if result != gpubackend.Success {
		return result
	}
	if peer == c {
		return gpubackend.InvalidContext
	}
	if !x.peers.Has(c, peer) {
		return gpubackend.PeerAccessNotEnabled
	}
	x.peers.Take(c, peer)
	return gpubackend.Success
}

// peer returns the current context and the active one of a handle.
func (x *Contexts) peer(h gpubackend.Context) (c, peer *Context, result gpubackend.Result) {
	if c, result = x.Current(); result != gpubackend.Success {
		return nil, nil, result
	}
	if peer, _, result = x.Find(uint64(h)); result != gpubackend.Success {
		return nil, nil, result
	}
	if !peer.active {
		return nil, nil, gpubackend.InvalidContext
	}
	return c, peer, gpubackend.Success
}
