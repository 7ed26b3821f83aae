// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time that this process has used. Other load on the machine disturbs it
// less than the clock.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkKernels reports thread instructions per second of processor time.
func BenchmarkKernels(b *testing.B) {
	const n = 1 << 16
	tests := []struct {
		name, file, kernel string
		grid, block        Dim
		shared             uint32
		args               func(d *device) []any
	}{
		{"VectorAdd", "basic", "vectorAdd", linear(n / 256), linear(256), 0, func(d *device) []any {
			v := put(d, make([]float32, n))
			return []any{v, v, put(d, make([]float32, n)), int32(n)}
		}},
		{"Matmul", "basic", "matmul", Dim{8, 8, 1}, Dim{16, 16, 1}, 0, func(d *device) []any {
			v := put(d, randomFloats(128*128, -1, 1))
			return []any{v, v, put(d, make([]float32, 128*128)), int32(128)}
		}},
		{"MonteCarlo", "maths", "monteCarlo", linear(16), linear(256), 0, func(d *device) []any {
			return []any{put(d, []uint32{0}), int32(500)}
		}},
		{"BlackScholes", "maths", "blackScholes", linear(n / 256), linear(256), 0,
			func(d *device) []any {
				v := put(d, randomFloats(n, 1, 20))
				return []any{v, v, v, put(d, make([]float32, n)), put(d, make([]float32, n)),
					int32(n)}
			}},
		{"Reduce", "basic", "reduceShuffle", linear(16), linear(256), 0, func(d *device) []any {
			return []any{put(d, make([]int32, n)), put(d, []int32{0}), int32(n)}
		}},
		{"Scan", "basic", "scanBlock", linear(n / 256), linear(256), 2048, func(d *device) []any {
			return []any{put(d, make([]int32, n)), put(d, make([]int32, n))}
		}},
		{"Histogram", "basic", "histogram", linear(16), linear(256), 0, func(d *device) []any {
			in := make([]uint8, n)
			for i, v := range randomInts(n, 256) {
				in[i] = uint8(v)
			}
			return []any{put(d, in), put(d, make([]uint32, 256)), int32(n)}
		}},
		{"Collatz", "flow", "collatz", linear(64), linear(256), 0, func(d *device) []any {
			in := randomInts(64*256, 100000)
			for i := range in {
				in[i]++
			}
			return []any{put(d, in), put(d, in), int32(len(in))}
		}},
		{"SinF", "maths", "sinF", linear(n / 256), linear(256), 0, func(d *device) []any {
			return []any{put(d, randomFloats(n, -10, 10)), put(d, make([]float32, n)), int32(n)}
		}},
		{"PowD", "maths", "powD", linear(32), linear(256), 0, func(d *device) []any {
			return []any{put(d, make([]float64, 8192)), put(d, make([]float64, 8192)), int32(8192)}
		}},
	}
	for _, test := range tests {
		b.Run(test.name, func(b *testing.B) {
			d := newTest(b, test.file)
			l := d.launch(test.kernel, test.grid, test.block, test.args(d)...)
			l.SharedBytes, l.Workers = test.shared, 1
			b.ReportAllocs()
			b.ResetTimer()
			started := cpuTime(b)
			var done uint64
			for range b.N {
				if err := l.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
				done += d.stats.ThreadInstructions
			}
			b.ReportMetric(float64(done)/(cpuTime(b)-started).Seconds()/1e6, "Minst/s")
		})
	}
}
