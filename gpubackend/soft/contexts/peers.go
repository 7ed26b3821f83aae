// SPDX-License-Identifier: Apache-2.0

package contexts

import "github.com/paracuda/paracuda/gpubackend"

// Kernels are told apart by their GPU alone: when one context gets access to another GPU's memory,
// all contexts of its own GPU have it.

// CtxEnablePeerAccess implements gpubackend.Driver.
func (x *Contexts) CtxEnablePeerAccess(h gpubackend.Context, flags uint64) gpubackend.Result {
	c, peer, result := x.peer(h)
	switch {
	case result != gpubackend.Success:
		return result
	case flags != 0:
		return gpubackend.InvalidValue
	case c.GPU == peer.GPU:
		return gpubackend.PeerAccessUnsupported
	case c.peers[peer]:
		return gpubackend.PeerAccessAlreadyEnabled
	}
	if c.peers == nil {
		c.peers = make(map[*Context]bool)
	}
	c.peers[peer] = true
	x.options.Hooks.Connect(c.GPU, peer.GPU, true)
	return gpubackend.Success
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
	if !c.peers[peer] {
		return gpubackend.PeerAccessNotEnabled
	}
	x.part(c, peer)
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

// part takes back a context's access to a peer's memory.
func (x *Contexts) part(c, peer *Context) {
	delete(c.peers, peer)
	x.options.Hooks.Connect(c.GPU, peer.GPU, false)
}

// leavePeers takes back the access of a context that ends, and the access of others to it.
func (x *Contexts) leavePeers(c *Context) {
	for peer := range c.peers {
		x.part(c, peer)
	}
	for _, other := range x.all {
		if other.peers[c] {
			x.part(other, c)
		}
	}
}
