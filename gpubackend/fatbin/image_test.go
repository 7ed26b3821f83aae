// SPDX-License-Identifier: Apache-2.0

package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// part is a variant to be put into a container.
type part struct {
	kind    Kind
	arch    int
	flags   uint64
	payload []byte
	// size is the uncompressed size of a compressed payload.
	size   uint64
	header int
}

// container builds a fat binary of parts, by the layout's own offsets.
func container(parts ...part) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, p := range parts {
		header := max(p.header, variantBytes)
		h := make([]byte, header)
		padded := (len(p.payload) + 7) &^ 7
		le.PutUint16(h[0:], uint16(p.kind))
		le.PutUint16(h[2:], 0x0101)
		le.PutUint32(h[4:], uint32(header))
		le.PutUint64(h[8:], uint64(padded))
		le.PutUint16(h[24:], 4)
		le.PutUint16(h[26:], 8)
		le.PutUint32(h[28:], uint32(p.arch))
		le.PutUint64(h[40:], p.flags)
		if p.flags != 0 {
			le.PutUint32(h[16:], uint32(len(p.payload)))
			le.PutUint64(h[56:], p.size)
		}
		body = append(append(body, h...), p.payload...)
		body = append(body, make([]byte, padded-len(p.payload))...)
	}
	head := make([]byte, containerBytes)
	le.PutUint32(head, MagicContainer)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], containerBytes)
	le.PutUint64(head[8:], uint64(len(body)))
	return append(head, body...)
}

func ptxText(target string) []byte {
	return []byte("//\n.version 8.4\n.target " + target + "\n.address_size 64\n" +
		strings.Repeat("// padding\n", 50))
}

func lz4Part(tb testing.TB, arch int, text []byte) part {
	tb.Helper()
	out := make([]byte, lz4.CompressBlockBound(len(text)))
	n, err := lz4.CompressBlock(text, out, nil)
	if err != nil || n == 0 {
		tb.Fatalf("compress: %d, %v", n, err)
	}
	return part{kind: PTX, arch: arch, flags: flagLZ4, payload: out[:n], size: uint64(len(text))}
}

func zstdPart(tb testing.TB, arch int, text []byte) part {
	tb.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return part{kind: PTX, arch: arch, flags: flagZstd, payload: enc.EncodeAll(text, nil),
		size: uint64(len(text))}
}

func TestBestPTX(t *testing.T) {
	t.Parallel()
	text := ptxText("sm_75")
	elf := part{kind: ELF, arch: 90, payload: []byte("\x7fELF....")}
	image := container(elf, part{kind: PTX, arch: 52, payload: append(ptxText("sm_52"), 0)},
		lz4Part(t, 75, text), zstdPart(t, 100, ptxText("sm_100")),
		part{kind: NewELF, arch: 120, payload: []byte{1}, header: 112})
	tests := []struct {
		name  string
		image []byte
		arch  int
		want  []byte
		err   error
	}{
		{"stored", image, 60, ptxText("sm_52"), nil},
		{"lz4", image, 90, text, nil},
		{"zstd", image, 100, ptxText("sm_100"), nil},
		{"too old", image, 50, nil, ErrNoBinary},
		{"trailing bytes", append(bytes.Clone(image), 1, 2, 3), 90, text, nil},
		{"text", append(bytes.Clone(text), 0, 'x'), 75, text, nil},
		{"text for a newer device", text, 70, nil, ErrNoBinary},
		{"cubin", []byte("\x7fELF\x02\x01\x01"), 90, nil, ErrNoBinary},
		{"cubins only", container(elf), 90, nil, ErrNoBinary},
		{"old compression",
			container(part{kind: PTX, arch: 30, flags: flagOld, payload: []byte{1, 2}, size: 10}),
			90, nil, ErrCompression},
		{"damaged", container(part{kind: PTX, arch: 30, flags: flagLZ4, payload: []byte{0xff, 2, 3},
			size: 100}), 90, nil, ErrCompression},
		{"bomb", container(part{kind: PTX, arch: 30, flags: flagLZ4, payload: []byte{0xff},
			size: 1 << 27}), 90, nil, ErrCompression},
		{"size wrong", container(func() part { p := lz4Part(t, 75, text); p.size++; return p }()),
			90, nil, ErrCompression},
		{"zstd size wrong",
			container(func() part { p := zstdPart(t, 75, text); p.size--; return p }()), 90, nil,
			ErrCompression},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			im, err := Open(test.image)
			if err != nil {
				t.Fatal(err)
			}
			got, err := im.BestPTX(test.arch, nil)
			if !errors.Is(err, test.err) || !bytes.Equal(got, test.want) {
				t.Errorf("%q, error %v; want %q, %v", got, err, test.want, test.err)
			}
		})
	}
}

func TestOpenInvalid(t *testing.T) {
	t.Parallel()
	good := container(part{kind: PTX, arch: 52, payload: ptxText("sm_52")})
	change := func(at int, b ...byte) []byte {
		image := bytes.Clone(good)
		copy(image[at:], b)
		return image
	}
	tests := map[string][]byte{
		"empty":                nil,
		"blank":                []byte(" \n\x00.version"),
		"text without PTX":     []byte("hello"),
		"binary":               {0x80, 0x81, 0x82, 0x83, 0x84},
		"wrapper":              {0xB1, 0x43, 0x62, 0x46, 1, 0, 0, 0},
		"old container":        {0x01, 0x5A, 0xE5, 0x1E, 1, 0, 0, 0},
		"archive":              []byte("!<arch>\nfoo"),
		"cut in the header":    good[:10],
		"cut in the body":      good[:len(good)-1],
		"short header":         change(6, 4, 0),
		"huge body":            change(8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"short variant header": change(16+4, 8, 0),
		"huge variant header":  change(16+4, 0xff, 0xff, 0xff, 0xff),
		"huge payload":         change(16+8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	}
	for name, image := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if im, err := Open(image); !errors.Is(err, ErrInvalidImage) {
				t.Errorf("image %v, error %v, want ErrInvalidImage", im, err)
			}
		})
	}
}

func TestVariant(t *testing.T) {
	t.Parallel()
	im, err := Open(container(lz4Part(t, 75, ptxText("sm_75"))))
	if err != nil {
		t.Fatal(err)
	}
	e := im.Variants[0]
	if e.Kind != PTX || e.Arch != 75 || e.Major != 8 || e.Minor != 4 || e.Compressed != LZ4 ||
		e.Size != uint64(len(ptxText("sm_75"))) {
		t.Errorf("variant %+v", e)
	}
	if e.Kind.String() != "PTX" || ELF.String() != "ELF" || Kind(0x40).String() != "kind 0x40" {
		t.Error("names of kinds")
	}
}

func FuzzFatbin(f *testing.F) {
	f.Add(container(part{kind: PTX, arch: 52, payload: ptxText("sm_52")}))
	f.Add(container(lz4Part(f, 75, ptxText("sm_75")), zstdPart(f, 90, ptxText("sm_90"))))
	f.Add(ptxText("sm_90a"))
	f.Fuzz(func(t *testing.T, image []byte) {
		im, err := Open(image)
		if err != nil {
			return
		}
		for i := range im.Variants {
			data, err := im.Variants[i].Payload(nil)
			if err == nil && len(data) > MaxPayload {
				t.Errorf("payload of %d bytes", len(data))
			}
		}
		_, _ = im.BestPTX(1000, nil)
	})
}

// TestCompiled opens what nvcc wrote.
func TestCompiled(t *testing.T) {
	t.Parallel()
	image, err := os.ReadFile("testdata/golden/tiny.fatbin")
	if err != nil {
		t.Fatal(err)
	}
	im, err := Open(image)
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Variants) != 2 {
		t.Fatalf("%d variants, want 2", len(im.Variants))
	}
	text, err := im.BestPTX(90, nil)
	if err != nil || !bytes.Contains(text, []byte(".visible .entry tiny")) {
		t.Errorf("text %q, error %v", text, err)
	}
}

// TestHeads: the structures are as large as what they describe.
func TestHeads(t *testing.T) {
	for _, c := range []struct {
		head any
		want int
	}{{containerHead{}, containerBytes}, {variantHead{}, variantBytes}} {
		if n := binary.Size(c.head); n != c.want {
			t.Errorf("%T has %d bytes, want %d", c.head, n, c.want)
		}
	}
}
