// SPDX-License-Identifier: Apache-2.0

package contexts

import "github.com/paracuda/paracuda/gpubackend"

// CtxEnablePeerAccess makes the driver give access to what it allocates itself, and Connect to the
// rest. The latter holds for all contexts of the GPU.
func (x *Contexts) CtxEnablePeerAccess(h gpubackend.Context, flags uint64) gpubackend.Result {
	peer := x.table[h]
	if !x.Usable() || peer == nil || !peer.Exists() {
		return gpubackend.InvalidContext
	}
	r := x.calls.CtxEnablePeerAccess(h, flags)
	if r != gpubackend.Success {
		return r
	}
	c := x.state.Home()
	peer = peer.Home()
	if c.peers[peer] {
		return r
	}
	if r = x.hooks.Connect(c.GPU, peer.GPU, true); r != gpubackend.Success {
		x.calls.CtxDisablePeerAccess(h)
		return r
	}
	if c.peers == nil {
		c.peers = make(map[*Context]bool)
	}
	c.peers[peer] = true
	return r
}

// CtxDisablePeerAccess takes both back.
func (x *Contexts) CtxDisablePeerAccess(h gpubackend.Context) gpubackend.Result {
	peer := x.table[h]
	if !x.Usable() || peer == nil || !peer.Exists() {
		return gpubackend.InvalidContext
	}
	r := x.calls.CtxDisablePeerAccess(h)
	if r == gpubackend.Success {
		x.part(x.state.Home(), peer.Home())
	}
	return r
}

// part takes back a context's access to a peer's memory.
func (x *Contexts) part(c, peer *Context) {
	if c.peers[peer] {
		delete(c.peers, peer)
		x.hooks.Connect(c.GPU, peer.GPU, false)
	}
}

// leavePeers takes back the access of a context that has ended, and that of others to it. The
// driver has done so for its own allocations.
func (x *Contexts) leavePeers(c *Context) {
	for peer := range c.peers {
		x.part(c, peer)
	}
	for _, other := range x.table {
		x.part(other, c)
	}
}
