// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Reasons by which the worker maps.
var (
	rings   = vouchers.Reason{Kind: vouchers.Rings}
	records = vouchers.Reason{Kind: vouchers.Records}
	headers = vouchers.Reason{Kind: vouchers.Headers}
)

// listOf is a reason of a list of a chain's runs.
func listOf(n, i uint32) vouchers.Reason {
	return vouchers.Reason{Kind: vouchers.Lists, Chain: n, Index: i}
}

// pagesOf is a reason of a run of a map.
func pagesOf(n, i uint32) vouchers.Reason {
	return vouchers.Reason{Kind: vouchers.Pages, Chain: n, Index: i}
}

// mapBy maps guest memory by a reason.
func (w *worker) mapBy(
	x vouchers.Reason, address, bytes uint64, write bool,
) ([]byte, error) {
	return w.mapOf(w.guest.ReadFile, x, address, bytes, write)
}

// mapOf maps guest memory that is only to be read from another file than mapBy.
func (w *worker) mapOf(
	file int, x vouchers.Reason, address, bytes uint64, write bool,
) ([]byte, error) {
	run := guestmem.Run{FD: w.guest.File, ReadFD: file, Right: x.Right()}
	prot, fd, flags := run.File(write)
	at := int64(w.guest.FileOffset + address)
	return unix.Mmap(fd, at, int(bytes), prot, flags)
}

// mapping is a deed of a worker whose driver says what is whose.
func mapping(name string, do func(w *worker) string) Deed {
	return Deed{Kind: "mapping", Name: name, Vouchers: true, do: do}
}

// unfounded is a mapping to which the worker has no right.
type unfounded struct {
	name           string
	by             vouchers.Reason
	address, bytes uint64
	write          bool
}

// refused is a deed with all of them.
func refused(list []unfounded) Deed {
	return mapping("what it may not map", func(w *worker) (reached string) {
		for _, x := range list {
			_, err := w.mapBy(x.by, x.address, x.bytes, x.write)
			if !errors.Is(err, unix.EACCES) {
				reached += fmt.Sprintf("%s: %v; ", x.name, err)
			}
		}
		return reached
	})
}

// mappings are what a worker maps whose guest's driver vouches for pages.
func mappings() []Deed {
	const (
		page        = 4096
		read, write = false, true
		exposed0    = Vouchers + 0x1000 // in the order in which Vouch makes them
		directory0  = exposed0 + page
		headers0    = directory0 + page
		headers1    = headers0 + 3*page
		lists       = headers1 + page // of each voucher, one after the other
	)
	list := []unfounded{
		{"all of the VM's memory", records, 0, guestBytes, read},
		{"its kernel's memory by no right", vouchers.Reason{}, kernels, page, read},
		{"its kernel's memory by an unknown right", vouchers.Reason{Kind: 99}, kernels,
			page, read},
		{"its kernel's memory as records", records, kernels, page, write},
		{"its kernel's memory as rings", rings, kernels, page, write},
		{"its kernel's memory as headers", headers, kernels, page, read},
		{"its kernel's memory as a list", listOf(vouched, 0), kernels, page, read},
		{"its kernel's memory as pages", pagesOf(vouched, 0), kernels, page, read},
		{"its kernel's memory as an arena", vouchers.Reason{Kind: vouchers.Arena}, kernels,
			page, write},
		{"where the vouchers begin", headers, Vouchers, page, read},
		{"what says which pages are its channel's", headers, exposed0, page, read},
		{"a directory", headers, directory0, page, read},
		{"its vouchers, to write", headers, headers0, page, write},
		{"its vouchers as records", records, headers0, page, write},
		{"its vouchers as a list", listOf(vouched, 0), headers0, page, read},
		{"vouchers of another channel", headers, headers1, page, read},
		{"a list, to write", listOf(vouched, 0), lists, page, write},
		{"a list of another chain", listOf(vouched, 0), lists + page, page, read},
		{"a list of another channel", listOf(others, 0), lists + 3*page, page, read},
		{"a list beyond its runs", listOf(vouched, 1), lists, page, read},
		{"a list of lists that isn't there", vouchers.Reason{Kind: vouchers.Table,
			Chain: vouched}, lists, page, read},
		{"records and more", records, Report, 2 * page, write},
		{"pages of another program", pagesOf(others, 0), pages1, page, read},
		{"pages of another program as its own", pagesOf(vouched, 0), pages1, page, read},
		{"pages that were unpinned", pagesOf(over, 0), pages0, page, read},
		{"pages that nobody has pinned", pagesOf(4, 0), pages0, page, read},
		{"to pages that may only be read", pagesOf(toRead, 0), pages0, page, write},
		{"a page between those that are pinned", pagesOf(vouched, 0), pages0 + page, page,
			read},
		{"more than is pinned", pagesOf(vouched, 0), pages0, 2 * page, read},
		{"from before what is pinned", pagesOf(vouched, 0), pages0 - page, 2 * page, read},
		{"the other run", pagesOf(vouched, 1), pages0, page, read},
		{"a run that isn't there", pagesOf(vouched, 2), pages0, page, read},
		{"the last run", pagesOf(vouched, math.MaxUint32), pages0, page, read},
		{"a voucher far away", pagesOf(1<<24-1, 0), pages0, page, read},
		{"voucher 0", pagesOf(0, 0), pages0, page, read},
		{"an offset that wraps", pagesOf(vouched, 0), pages0 | 1<<63, page, read},
		{"a length that wraps", pagesOf(vouched, 0), pages0, math.MaxInt64 &^ (page - 1),
			read},
	}
	return []Deed{
		mapping("what it may map", func(w *worker) string {
			for _, err := range []error{
				second(w.mapBy(headers, headers0, page, read)),
				second(w.mapBy(listOf(vouched, 0), lists, page, read)),
				second(w.mapBy(pagesOf(vouched, 0), pages0, page, write)),
				second(w.mapBy(pagesOf(vouched, 1), pages0+2*page, page, read)),
				second(w.mapBy(pagesOf(toRead, 0), pages0, page, read)),
				second(w.mapBy(rings, w.start.Queue.Used&^(page-1), page, write)),
			} {
				if err != nil {
					return "it can't: the other deeds prove nothing"
				}
			}
			return ""
		}),
		refused(list),
		mapping("writes to what it may only read", readOnly(map[string]source{
			"headers": {headers, headers0}, "a list": {listOf(vouched, 0), lists},
			"pages": {pagesOf(toRead, 0), pages0},
		})),
		mapping("a file that it has, behind its end", func(w *worker) string {
			const far = 1 << 44
			if _, err := w.mapBy(pagesOf(vouched, 0), far, page, read); err == nil {
				return "it is mapped"
			}
			return ""
		}),
	}
}

// source is memory that may only be read.
type source struct {
	by      vouchers.Reason
	address uint64
}

// readOnly tries to write to such memory in all ways.
func readOnly(list map[string]source) func(w *worker) string {
	const page = 4096
	return func(w *worker) (reached string) {
		for name, x := range list {
			b, err := w.mapBy(x.by, x.address, page, false)
			if err != nil {
				return name + " can't be read: the rest proves nothing"
			}
			both := unix.PROT_READ | unix.PROT_WRITE
			_, writable := w.mapOf(w.guest.File, x.by, x.address, page, false)
			run := guestmem.Run{FD: w.guest.ReadFile, Right: x.by.Right()}
			prot, fd, flags := run.File(true)
			_, direct := unix.Mmap(fd, int64(x.address), page, prot, flags)
			for way, err := range map[string]error{
				"is made writable": unix.Mprotect(b, both), "becomes a hole": unix.Madvise(b,
					unix.MADV_REMOVE),
				"is mapped from a file that can be written": writable, "is mapped to write": direct,
			} {
				if !errors.Is(err, unix.EACCES) {
					reached += fmt.Sprintf("%s %s: %v; ", name, way, err)
				}
			}
		}
		return reached
	}
}

// second is the error of two results.
func second(_ []byte, err error) error { return err }
