// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"math/bits"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

const _ = uint8(granulePinned) + gpus.Max // each GPU has a state of its own

func hostAddress(b []byte) uint64 { return uint64(guestmem.Addr(b)) }

// setRegistered sets how much guest memory is registered at a time, rounded down to a power of two.
func (e *cudaEngine) setRegistered(bytes uint64) {
	e.granule = uint8(bits.Len64(bytes) - 1)
	e.registered = 1 << e.granule
}

// reached says whether a span lies in one registered granule, as nearly all do. It is called for
// each page.
func (e *cudaEngine) reached(p *span) bool {
	const mask = 63 // saves a comparison
	first, last := p.offset>>(e.granule&mask), (p.offset+p.bytes-1)>>(e.granule&mask)
	return first == last && first < uint64(len(p.region.granules)) &&
		p.region.granules[first] >= granulePinned
}

// register makes sure that GPUs reach a span of guest memory. What one registers all reach. If a
// granule can't be registered, its payload is bounced.
func (e *cudaEngine) register(l *gpuJobs, p *span) bool {
	r := p.region
	if r.granules == nil {
		r.granules = make([]granuleState, (r.key.size+e.registered-1)/e.registered)
	}
	ok := true
	for granule := p.offset >> e.granule; granule <= (p.offset+p.bytes-1)>>e.granule; granule++ {
		if r.granules[granule] == granuleUnknown {
			r.granules[granule] = e.registerGranule(l, r, granule)
		}
		ok = ok && r.granules[granule] >= granulePinned
	}
	return ok
}

// registerGranule registers one granule. The file's length is checked first: pages that aren't
// there can't be pinned. Pinned pages survive a cut of the file. That a GPU is lost says nothing
// about a granule.
func (e *cudaEngine) registerGranule(l *gpuJobs, r *region, granule uint64) granuleState {
	from, to := granule*e.registered, min((granule+1)*e.registered, r.key.size)
	if !r.holds(to) {
		return granuleRefused
	}
	populate(r.host[from:to])
	result := e.device.HostRegister(hostAddress(r.host[from:to]), to-from, true)
	switch {
	case result == gpubackend.Success:
		return granulePinned + granuleState(l.number)
	case result.Sticky() || result.OfGPU():
		return granuleUnknown
	case !r.warned:
		r.warned = true
		e.warn("register guest memory: it is copied by the CPU", result.Err())
	}
	return granuleRefused
}

// How many threads bring pages in, and the fewest bytes for one.
const (
	populateThreads = 4
	populateLeast   = 2 << 20
)

// populate brings pages in with several threads; CUDA would use one. That allocates and clears
// pages that the guest never used. CUDA refuses pages that can't be brought in.
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

// forget unregisters a region, each granule in the context in which it was registered. The engine
// ends if that fails: GPUs may reach the pages for as long as this process lives.
func (e *cudaEngine) forget(r *region) {
	for i, state := range r.granules {
		if state < granulePinned {
			continue
		}
		granule := uint64(i)
		from, to := granule*e.registered, min((granule+1)*e.registered, r.key.size)
		result := e.device.SetCurrent(e.gpus[state-granulePinned].context)
		if result == gpubackend.Success {
			result = e.device.HostUnregister(hostAddress(r.host[from:to]), to-from)
		}
		if result != gpubackend.Success {
			e.warn("unregister guest memory", result.Err())
			e.end(result)
		}
	}
	r.granules = nil
}

// bounced copies a span that can't be registered through pinned memory, and waits for it.
func (e *cudaEngine) bounced(s *flight, j *job, p *span, device uint64) gpubackend.Result {
	l := s.on
	for host := p.host(); len(host) > 0; {
		n := min(len(host), len(l.bounce))
		if j.toDevice && !guardedCopy(l.bounce[:n], host[:n]) {
			return resultFault
		}
		dst, src := device, l.bounceAt
		if !j.toDevice {
			dst, src = src, dst
		}
		if r := e.device.Copy(dst, src, uint64(n), s.stream); r != gpubackend.Success {
			return r
		}
		if r := e.wait(s); r != gpubackend.Success {
			return r
		}
		if !j.toDevice && !guardedCopy(host[:n], l.bounce[:n]) {
			return resultFault
		}
		host, device = host[n:], device+uint64(n)
	}
	return gpubackend.Success
}
