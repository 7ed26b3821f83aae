// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// TestWarmWorkers runs programs one after another. Warm workers serve them, unless warm-workers is
// 0.
func TestWarmWorkers(t *testing.T) {
	t.Parallel()
	const number = 3
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		for _, warm := range []int{0, 1} {
			t.Run(strconv.Itoa(warm), func(t *testing.T) {
				var jobs []job
				for i := range number {
					jobs = append(jobs,
						job{strconv.Itoa(i), vm.limit, []string{filepath.Join(programs, follower)}})
				}
				stats := filepath.Join(logDir(t), "stats.json")
				got := vm.batch(t, jobs, "--set", "warm-workers="+strconv.Itoa(warm), "--stats",
					stats)
				for _, j := range jobs {
					wellFormed(t).check(t, got, j.id)
				}
				var counted struct {
					Starts     int `json:"starts"`
					WarmStarts int `json:"warm_starts"`
				}
				text, err := os.ReadFile(stats)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(text, &counted); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				if counted.Starts != number || (counted.WarmStarts > 0) != (warm > 0) {
					t.Errorf("warm-workers=%d: %d starts, %d of them warm, want %d starts", warm,
						counted.Starts, counted.WarmStarts, number)
				}
			})
		}
	})
}

// TestWarmWorkersOfEachGPU: a program gets a worker that is warm for the GPU that it uses first.
func TestWarmWorkersOfEachGPU(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		program := filepath.Join(programs, follower)
		script := "for i in 1 0 GPU-none 7 1,0; do CUDA_VISIBLE_DEVICES=$i " + program +
			"; done; exec " + program
		r := vm.run(t, vm.limit, "--gpu", "soft:2", "--set", "warm-workers=1", "--log-level",
			"debug", "--", "sh", "-c", script)
		var homes []string
		for _, m := range regexp.MustCompile(`channel is open.* warm_gpu=(\d)`).
			FindAllStringSubmatch(r.stderr, -1) {
			homes = append(homes, m[1])
		}
		if want := []string{"1", "0", "0", "0", "1", "0"}; r.exit != 0 ||
			!slices.Equal(homes, want) {
			t.Errorf("exit code %d, warm workers of GPUs %v, want %v: %s%s", r.exit, homes, want,
				tail(r.stdout), tail(r.stderr))
		}
	})
}
