// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// wordsOf is the words at the beginning of a body, as a worker copies them.
func wordsOf(body []byte) (words []uint64) {
	for b := body; len(b) >= 8; b = b[8:] {
		words = append(words, binary.LittleEndian.Uint64(b))
	}
	return words
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden has bytes that were written by hand from the description.
func TestGolden(t *testing.T) {
	launch := LaunchKernel{
		Function: 0x11, Stream: 2, GridX: 3, GridY: 4, GridZ: 5, BlockX: 6, BlockY: 7, BlockZ: 8,
		Shared:         9,
		AttributeCount: 1, ParameterBytes: 3, Parameters: []byte("abc"),
		Attributes: bytes.Repeat([]byte("z"), 72),
	}
	for _, tt := range []struct {
		name    string
		decode  func(body []byte) (any, bool)
		want    any
		encoded []byte
		bytes   string
	}{
		{
			"launch", func(b []byte) (any, bool) {
				c, ok := DecodeLaunchKernel(wordsOf(b), b)
				return c, ok
			}, launch, launch.Append(nil),
			"11 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00" +
				"03 00 00 00 04 00 00 00  05 00 00 00 06 00 00 00" +
				"07 00 00 00 08 00 00 00  09 00 00 00 01 00 00 00" +
				"03 00 00 00 00 00 00 00  61 62 63 00 00 00 00 00" +
				strings.Repeat("7a", 72),
		},
		{
			"copy to the device",
			func(b []byte) (any, bool) { c, ok := DecodeCopyHtoD(wordsOf(b), b); return c, ok },
			CopyHtoD{Device: 0x100, Host: Buffer{wire.BufferMap, 5<<32 | 6, 7}, Bytes: 7, Stream: 1,
				Flags: wire.CopyFlagPart},
			(&CopyHtoD{Device: 0x100, Host: Buffer{wire.BufferMap, 5<<32 | 6, 7}, Bytes: 7,
				Stream: 1, Flags: wire.CopyFlagPart}).Append(nil),
			"00 01 00 00 00 00 00 00  06 00 00 00 05 00 00 03" +
				"07 00 00 00 00 00 00 00  07 00 00 00 00 00 00 00" +
				"01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00",
		},
		{
			"name", func(b []byte) (any, bool) {
				c, ok := DecodeIpcOpenEventHandle(wordsOf(b), b)
				return c, ok
			},
			IpcOpenEventHandle{Name: [16]byte([]byte("0123456789abcdef"))},
			(&IpcOpenEventHandle{Name: [16]byte([]byte("0123456789abcdef"))}).Append(nil),
			"30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66",
		},
		{
			"memory operations",
			func(b []byte) (any, bool) { c, ok := DecodeNodeMemOps(b); return c, ok },
			NodeMemOps{Count: 1, Ops: bytes.Repeat([]byte{1}, 48)},
			(&NodeMemOps{Count: 1, Ops: bytes.Repeat([]byte{1}, 48)}).Append(nil),
			"0c 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00" +
				strings.Repeat("01", 48),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(t, tt.bytes)
			if !bytes.Equal(tt.encoded, b) {
				t.Errorf("encoded % x, want % x", tt.encoded, b)
			}
			got, ok := tt.decode(b)
			if !ok || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded %+v, %v", got, ok)
			}
			for n := range b {
				if _, ok := tt.decode(b[:n]); ok {
					t.Errorf("%d of %d bytes are taken", n, len(b))
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	box := func(change func(*CopyBox)) []byte {
		c := CopyBox{Host: Buffer{wire.BufferBulk, wire.Bulk, 8}, Kind: BoxDtoh}
		change(&c)
		return c.Append(nil)
	}
	texture := func(kind uint8, size uint64) []byte {
		c := TexObjectCreate{Resource: Buffer{wire.BufferInline, 24, cudaabi.ResourceDescSize},
			Texture: Buffer{kind, 0, size}}
		return c.Append(nil)
	}
	decodeBox := func(b []byte) bool { _, ok := DecodeCopyBox(wordsOf(b), b); return ok }
	decodeTexture := func(b []byte) bool {
		_, ok := DecodeTexObjectCreate(wordsOf(b), b)
		return ok
	}
	decodeOps := func(b []byte) bool { _, ok := DecodeNodeMemOps(b); return ok }
	room := make([]byte, (MaxMemOps+1)*cudaabi.StreamBatchMemOpParamsSize)
	for _, tt := range []struct {
		name   string
		decode func([]byte) bool
		body   []byte
		want   bool
	}{
		{"box", decodeBox, box(func(*CopyBox) {}), true},
		{"kind", decodeBox, box(func(c *CopyBox) { c.Kind = BoxDtod + 1 }), false},
		{"kind, high bits", decodeBox, box(func(c *CopyBox) { c.Kind |= 1 << 32 }), false},
		{"flags", decodeBox, box(func(c *CopyBox) { c.Flags = 4 }), false},
		{"texture", decodeTexture, texture(wire.BufferInline, cudaabi.TextureDescSize), true},
		{"no texture", decodeTexture, texture(wire.BufferNone, 0), true},
		{"a texture of no kind", decodeTexture, texture(wire.BufferNone, cudaabi.TextureDescSize),
			true},
		{"a short texture", decodeTexture, texture(wire.BufferInline, cudaabi.TextureDescSize-1),
			false},
		{"an empty texture", decodeTexture, texture(wire.BufferInline, 0), false},
		{"most operations", decodeOps,
			(&NodeMemOps{Count: MaxMemOps,
				Ops: room[cudaabi.StreamBatchMemOpParamsSize:]}).Append(nil), true},
		{"too many operations", decodeOps,
			(&NodeMemOps{Count: MaxMemOps + 1, Ops: room}).Append(nil), false},
		{"more than there are", decodeOps,
			(&NodeMemOps{Count: 2, Ops: room[:cudaabi.StreamBatchMemOpParamsSize]}).Append(nil),
			false},
		{"so many that they overflow", decodeOps,
			(&NodeMemOps{Count: 1 << 60, Ops: room}).Append(nil), false},
		{"another record", decodeOps, (&NodeMemFree{}).Append(nil), false},
	} {
		if got := tt.decode(tt.body); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	// What is of no kind has no bytes, whatever the guest says.
	b := texture(wire.BufferNone, cudaabi.TextureDescSize)
	if c, _ := DecodeTexObjectCreate(wordsOf(b), b); c.Texture.Bytes != 0 {
		t.Errorf("%d bytes of nothing", c.Texture.Bytes)
	}
}

// TestAnswers puts answers into a slot and reads them again.
func TestAnswers(t *testing.T) {
	var words Words
	a := MemPoolExportPointerAnswer{Token: 1, Name: [16]byte([]byte("0123456789abcdef")), Offset: 4}
	if n := a.Put(&words); n != 4 || words[0] != 1 || words[2] != 0x6665646362613938 ||
		words[3] != 4 {
		t.Errorf("%d words: %x", n, words[:4])
	}
	var got MemPoolExportPointerAnswer
	if got.Read(&words); got != a {
		t.Errorf("%+v", got)
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	launch := LaunchKernel{AttributeCount: 1, ParameterBytes: 3, Parameters: []byte("abc"),
		Attributes: make([]byte, 72)}
	b := launch.Append(nil)
	words := wordsOf(b)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := DecodeLaunchKernel(words, b); !ok {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode decodes anything as each command and record. What is taken is the same when it is
// encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for i := range roundTrips {
		f.Add(byte(i), bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 20))
		f.Add(byte(i), make([]byte, 200))
		f.Add(byte(i), bytes.Repeat([]byte{0xff}, 100))
	}
	f.Fuzz(func(t *testing.T, i byte, body []byte) {
		l := roundTrips[int(i)%len(roundTrips)]
		encoded, ok := l.again(wordsOf(body), body)
		if !ok {
			return
		}
		if len(encoded) > len(body)+8 {
			t.Fatalf("%s: %d bytes of %d", l.name, len(encoded), len(body))
		}
		again, ok := l.again(wordsOf(encoded), encoded)
		if !ok || !bytes.Equal(again, encoded) {
			t.Fatalf("%s: % x, then %v % x", l.name, encoded, ok, again)
		}
	})
}

func BenchmarkDecodeLaunch(b *testing.B) {
	launch := LaunchKernel{ParameterBytes: 32, Parameters: make([]byte, 32)}
	body := launch.Append(nil)
	words := wordsOf(body)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := DecodeLaunchKernel(words, body); !ok {
			b.Fatal("refused")
		}
	}
}

// BenchmarkLaunchInPlace decodes to where the launch before was.
func BenchmarkLaunchInPlace(b *testing.B) {
	launch := LaunchKernel{ParameterBytes: 32, Parameters: make([]byte, 32)}
	body := launch.Append(nil)
	words := wordsOf(body)
	b.ReportAllocs()
	for b.Loop() {
		if !launch.Decode(words, body) {
			b.Fatal("refused")
		}
	}
}
