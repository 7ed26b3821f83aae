// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// imagePart is an entry of a fat binary container.
type imagePart struct {
	kind    fatbin.Kind
	arch    uint32
	flags   uint64
	payload string
	size    int // of the unpacked payload, as the entry says
}

func containerOf(parts ...imagePart) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, p := range parts {
		h := make([]byte, 64)
		padded := (len(p.payload) + 7) &^ 7
		le.PutUint16(h, uint16(p.kind))
		le.PutUint32(h[4:], 64)
		le.PutUint64(h[8:], uint64(padded))
		le.PutUint32(h[28:], p.arch)
		le.PutUint64(h[40:], p.flags)
		if p.flags != 0 {
			le.PutUint32(h[16:], uint32(len(p.payload)))
			le.PutUint64(h[56:], uint64(p.size))
		}
		body = append(append(body, h...), p.payload...)
		body = append(body, make([]byte, padded-len(p.payload))...)
	}
	head := make([]byte, 16)
	le.PutUint32(head, 0xba55ed50)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], 16)
	le.PutUint64(head[8:], uint64(len(body)))
	return append(head, body...)
}

func zstdOf(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func lz4Of(t *testing.T, text string) string {
	t.Helper()
	out := make([]byte, lz4.CompressBlockBound(len(text)))
	n, err := lz4.CompressBlock([]byte(text), out, nil)
	if err != nil || n == 0 {
		t.Fatalf("compress: %d, %v", n, err)
	}
	return string(out[:n])
}

func TestFind(t *testing.T) {
	const fOld, fLZ4, fZstd = 0x1000, 0x2000, 0x8000
	filler := strings.Repeat("// some code that repeats itself\n", 100)
	silent, printing, asserting := ".version 8.0\n"+filler, ".version 8.0\n"+filler+"call vprintf;",
		".version 8.0\n"+filler+"call __assertfail;"
	ptx := func(text string) imagePart {
		return imagePart{kind: fatbin.PTX, arch: 90, payload: text}
	}
	cubin := func(arch uint32, text string) imagePart {
		return imagePart{kind: fatbin.ELF, arch: arch, payload: "\x7fELF" + text}
	}
	compressed := func(flags uint64, packed, text string) imagePart {
		return imagePart{kind: fatbin.PTX, arch: 90, flags: flags, payload: packed, size: len(text)}
	}
	for _, test := range []struct {
		name  string
		image []byte
		want  Kinds
	}{
		{"PTX", []byte(silent), Kinds{}},
		{"PTX that prints", []byte(printing), Kinds{Working: true}},
		{"PTX that asserts", []byte(asserting), Kinds{Failing: true}},
		{"a container of PTX", containerOf(ptx(silent)), Kinds{}},
		{"one that prints", containerOf(ptx(silent), ptx(printing)), Kinds{Working: true}},
		{"zstd", containerOf(compressed(fZstd, zstdOf(t, silent), silent)), Kinds{}},
		{"zstd that prints", containerOf(compressed(fZstd, zstdOf(t, printing), printing)),
			Kinds{Working: true}},
		{"LZ4", containerOf(compressed(fLZ4, lz4Of(t, silent), silent)), Kinds{}},
		{"LZ4 that asserts", containerOf(compressed(fLZ4, lz4Of(t, asserting), asserting)),
			Kinds{Failing: true}},
		{"a cubin is preferred to PTX", containerOf(ptx(printing), cubin(90, silent)), Kinds{}},
		{"the cubin prints", containerOf(ptx(silent), cubin(90, printing)), Kinds{Working: true}},
		{"cubins of other GPUs", containerOf(cubin(80, printing), cubin(90, asserting)),
			Kinds{Failing: true}},
		{"PTX where no cubin fits", containerOf(cubin(80, silent), ptx(printing)),
			Kinds{Working: true}},
		{"old compression", containerOf(compressed(fOld, "vvvv", silent)), unknown},
		{"damaged", containerOf(compressed(fZstd, "vvvv", silent)), unknown},
		{"announced too large",
			containerOf(imagePart{kind: fatbin.PTX, flags: fZstd, payload: zstdOf(t, silent),
				size: maxSearched + 1}), unknown},
		{"something else", containerOf(imagePart{kind: 8, arch: 90, payload: silent}), unknown},
		{"nothing", nil, unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Find(test.image, func(major int) bool { return major == 9 },
				nil); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
