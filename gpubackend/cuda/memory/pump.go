// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// A pump copies between device memory and host memory that isn't pinned, through pinned buffers. A
// parcel is a buffer and a stream. While the GPU copies one parcel, threads of the CPU copy others:
// a single thread is slower than the link, above all if the host memory has no pages yet.
type pump struct {
	calls   Calls
	work    *activity.Activity // of the context
	parcels []*parcel
}

// Allocating pinned memory takes 0.4 ms a MiB, which counts when little memory is suspended: so
// parcels are many and small. Larger ones, or more of them, weren't faster by more than that.
const (
	parcels     = 8
	parcelBytes = 4 << 20
	// threads is how many copy for a parcel at a time.
	threads = 2
	// ahead is how many parcels are filled before the GPU takes the first.
	ahead = 6
	// stepBytes is how much is copied at a time. A new page is in the processor's cache when the
	// kernel has zeroed it, and from 1 MiB on Go copies past the cache: 4 GiB took 145 ms that way,
	// and 127 ms in steps. To pages that are there it makes no difference.
	stepBytes = 256 << 10
)

// parcel is a buffer, and which bytes are in it.
type parcel struct {
	stream  gpubackend.Stream
	address uint64
	buffer  []byte
	copying sync.WaitGroup
	holds   portion
}

// portion is some bytes of a piece, and of its image.
type portion struct {
	device uint64
	image  []byte
}

// newPump makes a pump for the current context, whose work is given. On an error, too, it is to be
// closed.
func newPump(calls Calls, work *activity.Activity) (*pump, gpubackend.Result) {
	p := &pump{calls: calls, work: work}
	for range parcels {
		address, r := calls.MemHostAlloc(parcelBytes)
		if r != gpubackend.Success {
			return p, r
		}
		l := &parcel{address: address, buffer: cmem.At(address, parcelBytes)}
		p.parcels = append(p.parcels, l)
		// It and the guest's streams don't wait for each other.
		l.stream, r = calls.StreamCreateWithPriority(cudaabi.StreamNonBlocking, 0)
		if r != gpubackend.Success {
			return p, r
		}
	}
	return p, gpubackend.Success
}

// close ends the CPU's copies and frees everything. The driver's calls have entered the streams as
// busy: nobody may ask them once they are gone.
func (p *pump) close() {
	for _, l := range p.parcels {
		l.copying.Wait()
		if l.stream != 0 {
			p.calls.StreamSynchronize(l.stream)
			p.calls.StreamDestroy(l.stream)
			p.work.Gone(l.stream)
		}
		p.calls.MemFreeHost(l.address)
	}
}

// portions cuts pieces and their image into what fits in a parcel.
func portions(list []gpubackend.Piece, image []byte) (all []portion) {
	for _, piece := range list {
		for done := uint64(0); done < piece.Bytes; {
			n := min(piece.Bytes-done, parcelBytes)
			all = append(all, portion{piece.Address + done, image[:n]})
			image = image[n:]
			done += n
		}
	}
	return all
}

// out copies pieces to an image.
func (p *pump) out(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return p.outPortions(portions(list, image))
}

// outPortions copies portions to where each has its image.
func (p *pump) outPortions(all []portion) gpubackend.Result {
	for i := range len(all) + 1 {
		if i < len(all) {
			l := p.parcels[i%parcels]
			l.copying.Wait()
			l.holds = all[i]
			if r := p.calls.MemcpyDtoHAsync(l.address, l.holds.device, uint64(len(l.holds.image)),
				l.stream); r != gpubackend.Success {
				return r
			}
		}
		if i > 0 { // the previous one, while this one is copied
			l := p.parcels[(i-1)%parcels]
			if r := p.calls.StreamSynchronize(l.stream); r != gpubackend.Success {
				return r
			}
			l.copy(l.holds.image, l.buffer)
		}
	}
	for _, l := range p.parcels {
		l.copying.Wait()
	}
	return gpubackend.Success
}

// in copies an image to pieces.
func (p *pump) in(list []gpubackend.Piece, image []byte) gpubackend.Result {
	all := portions(list, image)
	for i := range len(all) + ahead {
		if i < len(all) {
			l := p.parcels[i%parcels]
			if r := p.calls.StreamSynchronize(l.stream); r != gpubackend.Success {
				return r
			}
			l.holds = all[i]
			l.copy(l.buffer, l.holds.image)
		}
		if i >= ahead {
			l := p.parcels[(i-ahead)%parcels]
			l.copying.Wait()
			if r := p.calls.MemcpyHtoDAsync(l.holds.device, l.address, uint64(len(l.holds.image)),
				l.stream); r != gpubackend.Success {
				return r
			}
		}
	}
	for _, l := range p.parcels {
		if r := p.calls.StreamSynchronize(l.stream); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

// copy begins to copy with several threads, as many bytes as the shorter slice has.
func (l *parcel) copy(dst, src []byte) {
	n := min(len(dst), len(src))
	size := (n + threads - 1) / threads
	for from := 0; from < n; from += size {
		to := min(from+size, n)
		l.copying.Go(func() {
			for at := from; at < to; at += stepBytes {
				end := min(at+stepBytes, to)
				copy(dst[at:end], src[at:end])
			}
		})
	}
}
