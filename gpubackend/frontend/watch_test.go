// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/vhostuser"
)

type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.buf.String(), "\n"), "\n")
}

// never is a time that no test waits for.
const never = time.Hour

func newWatch(t *testing.T, times Times) (*Watch, *lines) {
	t.Helper()
	said := &lines{}
	log := logrus.New()
	log.SetOutput(said)
	w := New(logrus.NewEntry(log), 17, times)
	t.Cleanup(w.Stop)
	return w, said
}

const (
	all = vhostuser.ProtocolFeatures
	fs  = all &^ vhostuser.ProtocolConfig
)

// TestTrouble is told as long as it holds.
func TestTrouble(t *testing.T) {
	w, said := newWatch(t, Times{Settle: never, Driver: time.Millisecond})
	if got := w.Trouble(); len(got) > 1 {
		t.Errorf("%+v", got)
	}
	w.Saw(vhostuser.Shown{Protocol: fs, Chosen: true, Queues: 2, Read: true})
	for len(w.Trouble()) < 2 {
		time.Sleep(time.Millisecond)
	}
	got := w.Trouble()
	if !strings.Contains(got[0].Found, "fewer queues") ||
		!strings.Contains(got[0].Fix, "num-request-queues=16") ||
		!strings.Contains(got[1].Found, "no driver") ||
		!strings.Contains(got[1].Fix, "install the guest package") {
		t.Errorf("%+v", got)
	}
	for _, line := range got {
		if all := strings.Join(said.all(), "\n"); !strings.Contains(all, line.Found+": ") {
			t.Errorf("%q isn't logged: %s", line.Found, all)
		}
	}
	if w.Greeted(); len(w.Trouble()) != 1 {
		t.Errorf("with a driver: %+v", w.Trouble())
	}
	w.Saw(vhostuser.Shown{Protocol: fs, Chosen: true, Queues: 2, Read: true, Unshared: true})
	if got = w.Trouble(); len(got) != 2 || !strings.Contains(got[0].Found, "not shared") ||
		!strings.Contains(got[0].Fix, "share=on") {
		t.Errorf("memory that isn't shared: %+v", got)
	}
}

// TestWatch shows front ends that fit, and some that don't: of these there is one line with the
// option to change.
func TestWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		shown []vhostuser.Shown
		want  string // "": nothing
	}{
		"QEMU that fits": {shown: []vhostuser.Shown{{Protocol: all, Chosen: true},
			{Protocol: all, Chosen: true, Queues: 3},
			{Protocol: all, Chosen: true, Queues: 17},
			{Protocol: all, Chosen: true, Queues: 17, Read: true},
			{Protocol: all, Chosen: true, Queues: 17, Read: true, Driver: true}}},
		"User Mode Linux": {shown: []vhostuser.Shown{{Protocol: all, Chosen: true, Read: true},
			{Protocol: all, Chosen: true, Read: true, Driver: true},
			{Protocol: all, Chosen: true, Read: true, Driver: true, Queues: 2}}},
		"num_vqs too low": {shown: []vhostuser.Shown{{Protocol: all, Chosen: true, Queues: 9},
			{Protocol: all, Chosen: true, Queues: 9, Read: true}},
			want: "num_vqs=17, or start paracuda device with --set channels=8"},
		"num_vqs left out": {shown: []vhostuser.Shown{{Protocol: all, Chosen: true, Queues: 1,
			Read: true}}, want: "num_vqs=17"},
		"channels too low": {shown: []vhostuser.Shown{{Protocol: all, Chosen: true, Queues: 18},
			{Protocol: all, Chosen: true, Queues: 19}}, want: "more queues than the device"},
		"a file system's device": {shown: []vhostuser.Shown{{Protocol: fs, Chosen: true},
			{Protocol: fs, Chosen: true, Queues: 17},
			{Protocol: fs, Chosen: true, Queues: 17, Driver: true}}},
		"num-request-queues left out": {shown: []vhostuser.Shown{{Protocol: fs, Chosen: true,
			Queues: 2},
			{Protocol: fs, Chosen: true, Queues: 2, Driver: true}},
			want: "num-request-queues=16 (a generic device: num_vqs=17 and config_size=256), " +
				"or start paracuda device with --set channels=1"},
		"num-request-queues too high": {shown: []vhostuser.Shown{{Protocol: fs, Chosen: true,
			Queues: 21}},
			want: "num-request-queues=16 (a generic device: num_vqs=17 and config_size=256), " +
				"or start paracuda device with --set channels=20"},
	} {
		t.Run(name, func(t *testing.T) {
			w, said := newWatch(t, Times{Settle: never, Driver: never})
			for _, s := range tt.shown {
				w.Saw(s)
			}
			got := said.all()
			if len(got) != 1 || !strings.Contains(got[0], tt.want) ||
				tt.want == "" && got[0] != "" {
				t.Errorf("the log says %q, not %q", got, tt.want)
			}
		})
	}
}

// TestWatchInTime: after a while the log says that no driver has come, or what is wrong with the
// queues, though no driver has read the configuration space since they were named.
func TestWatchInTime(t *testing.T) {
	for _, tt := range []struct {
		times Times
		shown vhostuser.Shown
		want  string
	}{
		{Times{Settle: never, Driver: time.Millisecond}, vhostuser.Shown{},
			"no driver in the guest has taken the device in 1ms"},
		{Times{Settle: never, Driver: time.Millisecond}, vhostuser.Shown{Driver: true},
			"tag=paracuda,num-request-queues=16"},
		{Times{Settle: never, Driver: time.Millisecond},
			vhostuser.Shown{Protocol: fs, Queues: 17}, // config_size left out
			"num_vqs=17,vq_size=256,config_size=256"},
		{Times{Settle: time.Millisecond, Driver: never}, vhostuser.Shown{Protocol: all, Queues: 4},
			"num_vqs=17, or start paracuda device with --set channels=3"},
	} {
		w, said := newWatch(t, tt.times)
		w.Saw(tt.shown)
		for end := time.Now().Add(time.Minute); !strings.Contains(said.all()[0],
			tt.want); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the log says %q, not %q", said.all(), tt.want)
			}
		}
	}
}
