// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// TestValuesReadBack: the values that a device tells can be set, and give the same settings.
func TestValuesReadBack(t *testing.T) {
	s := Default()
	for _, x := range []string{"memory=3G", "spin-host=0", "batch-delay=5ms", "address-mapping=off",
		"warm-workers=2", "stop-grace=1500ms", "inline-limit=1000", "allow-pageable-access=on",
		"starts=7"} {
		if err := s.Set(x); err != nil {
			t.Fatal(err)
		}
	}
	other := Default()
	for key, value := range s.Values() {
		if err := other.Set(key + "=" + value); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(s, other) {
		t.Errorf("%+v, not %+v", other, s)
	}
}

func TestStopGraceSetting(t *testing.T) {
	s := Default()
	for _, text := range []string{"stop-grace=0", "stop-grace=99ms", "stop-grace=61s",
		"stop-grace=5", "stop-grace=-1s"} {
		if err := s.Set(text); !errors.Is(err, ErrSetting) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := s.Set("stop-grace=1500ms"); err != nil || s.StopGrace != 1500*time.Millisecond {
		t.Errorf("%v, %v", s.StopGrace, err)
	}
}

// TestHostBound: half of the host's memory unless a bound is set, and at least that of one program.
func TestHostBound(t *testing.T) {
	half := hostTotal() / 2
	if half < 64<<20 {
		t.Fatalf("half of the host's memory is %d", half)
	}
	for _, test := range []struct {
		gpu, all, each string
		want           uint64
	}{
		{"soft", "0", "0", max(half, 1<<30)},
		{"soft", "3G", "0", 3 << 30},
		{"soft", "3G", "5G", 5 << 30},
		{"soft", "100M", "64M", 100 << 20},
		{"cuda", "3G", "0", 8 << 30},
		{"cuda", "30G", "0", 30 << 30},
	} {
		s := Default()
		if err := s.Set("vm-host-memory=" + test.all); err != nil {
			t.Fatal(err)
		}
		if err := s.Set("host-memory=" + test.each); err != nil {
			t.Fatal(err)
		}
		if got := s.HostBound(test.gpu); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
		if got, want := s.HostEnd(test.gpu), max(test.want, min(2*test.want, half/2*3)); got !=
			want && got-want > 1 {
			t.Errorf("%+v: a worker is ended at %d, want %d", test, got, want)
		}
	}
}

func TestMemoryBound(t *testing.T) {
	for _, test := range []struct {
		gpu               string
		soft, bound, want uint64
	}{
		{"soft", 2 << 30, 0, 2 << 30},
		{"soft", 2 << 30, 1 << 30, 1 << 30},
		{"soft", 1 << 30, 3 << 30, 1 << 30},
		{"cuda", 2 << 30, 0, 0},
		{"cuda", 1 << 30, 3 << 30, 3 << 30},
	} {
		s := Default()
		s.Policy.SoftMemory, s.Memory = test.soft, test.bound
		if got := s.MemoryBound(test.gpu); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
