// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newMemFD makes a memory file for tests.
func newMemFD(tb testing.TB, size int64, flags int) *FD {
	tb.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|flags)
	if err != nil {
		tb.Fatal(err)
	}
	f := NewFD(fd)
	tb.Cleanup(func() { _ = f.Close() })
	if err := unix.Ftruncate(fd, size); err != nil {
		tb.Fatal(err)
	}
	return f
}

func TestNewMemory(t *testing.T) {
	t.Parallel()
	fd := newMemFD(t, 16384, 0)
	none := NewFD(-1)
	for _, tt := range []struct {
		name    string
		regions []Region
		ok      bool
	}{
		{"empty table", nil, true},
		{"one", []Region{{0, 16384, 0, 0, fd}}, true},
		{"adjacent, out of order", []Region{{8192, 8192, 0, 8192, fd}, {0, 8192, 8192, 0, fd}},
			true},
		{"at the end of the address space",
			[]Region{{math.MaxUint64 - 4096, 4096, math.MaxUint64 - 4096, 0, fd}}, true},
		{"empty region", []Region{{0, 0, 0, 0, fd}}, false},
		{"guest addresses wrap", []Region{{math.MaxUint64 - 4094, 4096, 0, 0, fd}}, false},
		{"user addresses wrap", []Region{{0, 4096, math.MaxUint64 - 4094, 0, fd}}, false},
		{"offset wraps", []Region{{0, 4096, 0, math.MaxUint64 - 4095, fd}}, false},
		{"offset above 2^63", []Region{{0, 4096, 0, 1 << 63, fd}}, false},
		{"size of all ones", []Region{{0, math.MaxUint64, 0, 0, fd}}, false},
		{"longer than the file", []Region{{0, 16385, 0, 0, fd}}, false},
		{"ends after the file", []Region{{0, 8192, 0, 8193, fd}}, false},
		{"overlap", []Region{{0, 8192, 0, 0, fd}, {8191, 4096, 1 << 20, 0, fd}}, false},
		{"user overlap", []Region{{0, 8192, 0, 0, fd}, {1 << 20, 4096, 8191, 0, fd}}, false},
		{"repeated", []Region{{0, 8192, 0, 0, fd}, {0, 8192, 0, 0, fd}}, false},
		{"no descriptor", []Region{{0, 4096, 0, 0, nil}}, false},
		{"closed descriptor", []Region{{0, 4096, 0, 0, none}}, false},
	} {
		if _, err := NewMemory(tt.regions); (err == nil) != tt.ok {
			t.Errorf("%s: NewMemory = %v, want success %v", tt.name, err, tt.ok)
		}
	}
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	fd := newMemFD(t, 16384, 0)
	m, err := NewMemory([]Region{{0x10000, 4096, 0x5000, 0, fd}, {0x20000, 4096, 0x6000, 4096, fd}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		user, size, want uint64
		ok               bool
	}{
		{0x5000, 4096, 0x10000, true},
		{0x5fff, 1, 0x10fff, true},
		{0x6000, 4096, 0x20000, true},
		{0x5fff, 2, 0, false}, // over two regions
		{0x4fff, 1, 0, false},
		{0x7000, 0, 0, false},
		{0x6fff, math.MaxUint64, 0, false},
		{math.MaxUint64, 2, 0, false},
	} {
		got, err := m.Translate(tt.user, tt.size)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("Translate(%#x, %d) = %#x, %v, want %#x, %v", tt.user, tt.size, got, err,
				tt.want, tt.ok)
		}
	}
	if _, err := (&Memory{}).Translate(0, 1); !errors.Is(err, ErrNotShared) {
		t.Errorf("Translate without memory: %v", err)
	}
}

func TestCheckShared(t *testing.T) {
	t.Parallel()
	if err := (&Memory{}).CheckShared(); !errors.Is(err, ErrNotShared) ||
		!strings.Contains(err.Error(), "share=on") {
		t.Errorf("CheckShared without memory = %v", err)
	}
	fd := newMemFD(t, 64<<20, 0)
	m, err := NewMemory([]Region{{0, 64 << 20, 0, 0, fd}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckShared(); !errors.Is(err, ErrNotShared) {
		t.Errorf("CheckShared of blank memory = %v", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd.Int(), &st); err != nil || st.Blocks != 0 {
		t.Errorf("CheckShared filled %d blocks, %v", st.Blocks, err)
	}
	// A kernel's image: one part in thirty of the memory.
	if _, err := unix.Pwrite(fd.Int(), []byte(strings.Repeat("kernel", 400000)),
		16<<20); err != nil {
		t.Fatal(err)
	}
	if err := m.CheckShared(); err != nil {
		t.Errorf("CheckShared of a guest's memory = %v", err)
	}
}

func TestShrinkSealed(t *testing.T) {
	t.Parallel()
	plain, sealed := newMemFD(t, 4096, 0), newMemFD(t, 4096, unix.MFD_ALLOW_SEALING)
	if _, err := unix.FcntlInt(uintptr(sealed.Int()), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	a, b := Region{0, 4096, 0, 0, plain}, Region{8192, 4096, 8192, 0, sealed}
	for _, tt := range []struct {
		regions []Region
		want    bool
	}{{nil, false}, {[]Region{a}, false}, {[]Region{b}, true}, {[]Region{a, b}, false}} {
		m, err := NewMemory(tt.regions)
		if err != nil || m.ShrinkSealed() != tt.want {
			t.Errorf("%d regions: ShrinkSealed = %v, %v, want %v", len(tt.regions),
				m.ShrinkSealed(), err, tt.want)
		}
	}
}

// A memory can be made again from its regions and passed descriptors, and shows the same bytes.
func TestMemoryElsewhere(t *testing.T) {
	t.Parallel()
	fd := newMemFD(t, 16384, 0)
	m, err := NewMemory([]Region{{0x1000, 8192, 0, 8192, fd}})
	if err != nil {
		t.Fatal(err)
	}
	regions := m.Regions()
	if regions[0].FD, err = fd.Dup(); err != nil {
		t.Fatal(err)
	}
	again, err := NewMemory(regions)
	if err != nil {
		t.Fatal(err)
	}
	here, err := m.Map()
	if err != nil {
		t.Fatal(err)
	}
	there, err := again.Map()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := here.Write([]byte("hello"), 0x2000); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if err := there.Read(got, 0x2000); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := errors.Join(here.Close(), there.Close()); err != nil {
		t.Error(err)
	}
}
