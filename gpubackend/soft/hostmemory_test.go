// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

const ptxHead = ".version 8.0\n.target sm_80\n.address_size 64\n"

// packed is a container with an LZ4 block.
func packed(t *testing.T, text string) []byte {
	t.Helper()
	block := make([]byte, lz4.CompressBlockBound(len(text)))
	n, err := lz4.CompressBlock([]byte(text), block, nil)
	if err != nil || n == 0 {
		t.Fatalf("compress: %d, %v", n, err)
	}
	image := container(80, string(block[:n]))
	le := binary.LittleEndian
	le.PutUint32(image[16+16:], uint32(n))
	le.PutUint64(image[16+40:], 0x2000) // LZ4
	le.PutUint64(image[16+56:], uint64(len(text)))
	return image
}

// times repeats a text n times, and replaces %d by 0, 1, 2, and so on.
func times(n int, text string) string {
	var b []byte
	parts := strings.Split(text, "%d")
	for i := range n {
		for k, part := range parts {
			if k > 0 {
				b = strconv.AppendInt(b, int64(i), 10)
			}
			b = append(b, part...)
		}
	}
	return string(b)
}

// inFunction is a module of one function.
func inFunction(body string) string {
	return ptxHead + ".visible .entry f() {\n" + body + "\nret;\n}\n"
}

// dense makes texts of pieces that repeat. They are small beside what they describe.
var dense = map[string]func(n int) string{
	"semicolons":   func(n int) string { return ptxHead + strings.Repeat(";", 20*n) },
	"instructions": func(n int) string { return inFunction(strings.Repeat("bar.sync 0;", n)) },
	"arithmetic": func(n int) string {
		return inFunction(".reg .b32 a; mov.u32 a,0;" + strings.Repeat("add.u32 a,a,1;", n))
	},
	"constants": func(n int) string {
		return inFunction(".reg .b32 a;" + times(n, "mov.u32 a,%d;"))
	},
	"vectors": func(n int) string {
		return inFunction(".reg .b32 a,b; .reg .b64 c; mov.u64 c,0;" +
			strings.Repeat("ld.v2.u32 {a,b},[c+8];", n))
	},
	"labels":   func(n int) string { return inFunction(times(n, "a%d:")) },
	"branches": func(n int) string { return inFunction("x:" + strings.Repeat("bra x;", n)) },
	"registers": func(n int) string {
		return inFunction(times(n, ".reg .b64 x%d_;"))
	},
	"ranges": func(n int) string { return inFunction(times(n, ".reg .b64 r%dx<9>;")) },
	"targets": func(n int) string {
		return inFunction(".reg .b32 a; mov.u32 a,0; l: t: .branchtargets l" + strings.Repeat(",l",
			n/50) + ";" +
			strings.Repeat("brx.idx a,t;", 50))
	},
	"scopes":     func(n int) string { return inFunction(strings.Repeat("{}", n)) },
	"locals":     func(n int) string { return inFunction(times(n, ".local .b8 l%d;")) },
	"prototypes": func(n int) string { return inFunction(times(n, "p%d: .callprototype _ ();")) },
	"functions":  func(n int) string { return ptxHead + times(n, ".func f%d(){}") },
	"kernels": func(n int) string {
		return ptxHead + times(n/4, ".entry f%d(.param .b8 a){ret;}")
	},
	"parameters": func(n int) string {
		return ptxHead + times(n, ".func f%d(.param .b8 a,.param .b8 b);")
	},
	"calls": func(n int) string {
		return ptxHead + ".func g(.param .b32 a){ret;}\n.visible .entry f() {.param .b32 p;" +
			strings.Repeat("call g,(p);", n) + "ret;}"
	},
	"variables": func(n int) string { return ptxHead + times(n, ".global .b8 v%d;") },
	"content": func(n int) string {
		return ptxHead + ".global .b64 v[] = {0" + strings.Repeat(",0", n) + "};"
	},
	"addresses": func(n int) string {
		return ptxHead + ".global .b64 v[] = {0" + strings.Repeat(",v", n) + "};"
	},
	"zeros": func(n int) string {
		return ptxHead + times(n/10, ".global .b8 v%d[600] = {1};")
	},
	"references": func(n int) string { return ptxHead + times(n, ".global .texref t%d;") },
	"shared": func(n int) string {
		return ptxHead + times(n/100, ".shared .b8 s%d;") + ".func g() {.reg .b32 a;" + times(n/100,
			"mov.u32 a,s%d;") + "ret;}" +
			times(n/1000, ".entry f%d() {call g; ret;}")
	},
}

// live is how many bytes the heap holds.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated is how many bytes were ever allocated on the heap.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestCodeCounts: a module or library counts for at least what the heap holds for it, and for
// nothing when it is unloaded.
func TestCodeCounts(t *testing.T) {
	for name, text := range dense {
		t.Run(name, func(t *testing.T) {
			host := budget.New(1 << 40)
			d := newDevice(t, Options{HostMemory: host})
			image := []byte(text(6000))
			before, used := live(), host.Used()
			m, _, _, result := d.ModuleLoadData(image, nil, nil, nil)
			ok(t, result)
			held, counted := live()-before, host.Used()-used
			if held > counted+64<<10 || counted > 8*held+1<<20 {
				t.Errorf("a module of %d bytes of text counts for %d bytes and has %d", len(image),
					counted, held)
			}
			ok(t, d.ModuleUnload(m))
			l, _, _, result := d.LibraryLoadData(image, nil, nil, nil)
			ok(t, result)
			if held, counted = live()-before, host.Used()-used; held > counted+64<<10 {
				t.Errorf("a library of %d bytes of text counts for %d bytes and has %d", len(image),
					counted, held)
			}
			_, result = d.LibraryGetModule(l)
			ok(t, result)
			ok(t, d.LibraryUnload(l))
			d.scheduler.WaitUsers()
			if host.Used() != used {
				t.Errorf("%d bytes are counted when all is unloaded", host.Used()-used)
			}
			runtime.KeepAlive(image)
		})
	}
}

// TestDenseCode: code for which there is no memory is refused before it has taken much, and all of
// that is given back.
func TestDenseCode(t *testing.T) {
	const limit = 4 << 20
	for name, text := range dense {
		t.Run(name, func(t *testing.T) {
			host := budget.New(limit)
			d := newDevice(t, Options{HostMemory: host})
			whole := text(300000)
			images := [][]byte{packed(t, whole), []byte(whole)}
			used := host.Used()
			for _, image := range images {
				log := make([]byte, 1000)
				before := allocated()
				_, _, n, result := d.ModuleLoadData(image, nil, nil, log)
				want(t, result, gpubackend.OutOfMemory)
				if grown := allocated() - before; grown > 10*limit {
					t.Errorf("%d bytes were allocated", grown)
				}
				if host.Used() != used ||
					!strings.Contains(string(log[:n]), "Memory allocation failure") {
					t.Errorf("%d bytes are counted; log %q", host.Used()-used, log[:n])
				}
			}
		})
	}
}

// TestManySemicolons loads some KB that are 8 MiB of semicolons, which once took 1.3 GiB.
func TestManySemicolons(t *testing.T) {
	text := ptxHead + strings.Repeat(";", 8<<20)
	image := packed(t, text)
	if len(image) > 40<<10 {
		t.Fatalf("an image of %d bytes", len(image))
	}
	host := budget.New(24 << 20)
	d := newDevice(t, Options{HostMemory: host})
	before := allocated()
	m, _, _, result := d.ModuleLoadData(image, nil, nil, nil)
	ok(t, result)
	if grown := allocated() - before; grown > 24<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	ok(t, d.ModuleUnload(m))
	host.SetLimit(12 << 20) // the unpacked text and a copy are 16 MiB
	_, _, _, result = d.ModuleLoadData(image, nil, nil, nil)
	want(t, result, gpubackend.OutOfMemory)
}
