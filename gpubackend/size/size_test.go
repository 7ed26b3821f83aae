// SPDX-License-Identifier: Apache-2.0

package size

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "4k": 4 << 10, "4K": 4 << 10, "3M": 3 << 20, "8G": 8 << 30,
		"16383T": 16383 << 40,
	} {
		if n, err := Parse(text); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{
		"", "K", "x", "-1", "+1", "1.5G", "8GB", "8 G", " 8",
		"18446744073709551616", "16777216T", "0x10",
	} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q: %d, want an error", text, n)
		}
	}
}

func FuzzFormat(f *testing.F) {
	for _, n := range []uint64{0, 1, 1023, 1024, 3 << 20, 1 << 63} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint64) {
		if back, err := Parse(Format(n)); err != nil || back != n {
			t.Errorf("%d: %q, which is %d, %v", n, Format(n), back, err)
		}
	})
}
