// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"math/bits"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

func hostAddress(b []byte) uint64 { return uint64(guestmem.Addr(b)) }

// setRegistered sets how much guest memory is registered at a time, rounded down to a power of two.
func (e *cudaEngine) setRegistered(bytes uint64) {
	e.part = uint8(bits.Len64(bytes) - 1)
	e.registered = 1 << e.part
}

// reached says that a span lies in one part that is registered, as nearly each does, which is
// asked for with each page.
func (e *cudaEngine) reached(p *span) bool {
	const mask = 63 // spares a comparison
	first, last := p.offset>>(e.part&mask), (p.offset+p.bytes-1)>>(e.part&mask)
	return first == last && first < uint64(len(p.region.parts)) &&
		p.region.parts[first] == partPinned
}

// register makes sure that the GPU reaches a span of guest memory. A part whose registration fails
// stays without, and its payload is bounced.
func (e *cudaEngine) register(p *span) bool {
	r := p.region
	if r.parts == nil {
		r.parts = make([]partState, (r.key.size+e.registered-1)/e.registered)
	}
	ok := true
	for part := p.offset >> e.part; part <= (p.offset+p.bytes-1)>>e.part; part++ {
		if r.parts[part] == partUnknown {
			r.parts[part] = e.registerPart(r, part)
		}
		ok = ok && r.parts[part] == partPinned
	}
	return ok
}

// registerPart registers one part. The file's length is looked at first: pages that aren't there
// can't be pinned, and once pinned they survive whatever becomes of the file.
func (e *cudaEngine) registerPart(r *region, part uint64) partState {
	from, to := part*e.registered, min((part+1)*e.registered, r.key.size)
	if !r.holds(to) {
		return partRefused
	}
	populate(r.host[from:to])
	result := e.device.HostRegister(hostAddress(r.host[from:to]), to-from, true)
	if result != gpubackend.Success {
		if !r.warned {
			e.warn("register guest memory: it is copied by the CPU", result.Err())
		}
		r.warned = true
		return partRefused
	}
	return partPinned
}

// How many threads bring pages in, and the least that one is given.
const (
	populateThreads = 4
	populateLeast   = 2 << 20
)

// populate brings pages in with several threads, where CUDA would with one: that allocates and
// clears what the guest never used. What can't be brought in CUDA refuses.
func populate(b []byte) {
	threads := min(populateThreads, runtime.NumCPU())
	each := max((len(b)/threads+populateLeast-1)&^(populateLeast-1), populateLeast)
	var all sync.WaitGroup
	for len(b) > 0 {
		n := min(each, len(b))
		some := b[:n]
		b = b[n:]
		all.Go(func() { _ = unix.Madvise(some, unix.MADV_POPULATE_WRITE) })
	}
	all.Wait()
}

// forget unregisters a region.
func (e *cudaEngine) forget(r *region) {
	for i, state := range r.parts {
		if state != partPinned {
			continue
		}
		part := uint64(i)
		from, to := part*e.registered, min((part+1)*e.registered, r.key.size)
		if result := e.device.HostUnregister(hostAddress(r.host[from:to]),
			to-from); result != gpubackend.Success {
			e.warn("unregister guest memory", result.Err())
		}
	}
	r.parts = nil
}

// bounced copies a span that can't be registered through pinned memory, and waits for it.
func (e *cudaEngine) bounced(s *slot, j *job, p *span, device uint64) gpubackend.Result {
	for host := p.host(); len(host) > 0; {
		n := min(len(host), len(e.bounce))
		if j.toDevice && !guardedCopy(e.bounce[:n], host[:n]) {
			return resultFault
		}
		dst, src := device, e.bounceAt
		if !j.toDevice {
			dst, src = src, dst
		}
		if r := e.device.Copy(dst, src, uint64(n), s.stream); r != gpubackend.Success {
			return r
		}
		if r := e.wait(s); r != gpubackend.Success {
			return r
		}
		if !j.toDevice && !guardedCopy(host[:n], e.bounce[:n]) {
			return resultFault
		}
		host, device = host[n:], device+uint64(n)
	}
	return gpubackend.Success
}
