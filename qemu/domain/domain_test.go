// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMonitor: commands go to the domain's QEMU, its answers, errors and events come back.
func TestMonitor(t *testing.T) {
	f := &fakeDaemon{t: t, id: 3, qmp: func(command string) (string, string) {
		switch command {
		case `{"execute":"device_del"}`:
			return `{"return":{},"id":"libvirt-7"}`, `{"device":"gpu","path":"/machine/gpu"}`
		case `{"execute":"fly"}`:
			return `{"error":{"class":"CommandNotFound","desc":"no command fly"}}`, ""
		}
		return `{"return":{}}`, `not JSON`
	}}
	f.listen()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := Connect(ctx, Session, name)
	if err != nil {
		t.Fatal(err)
	}
	events, err := m.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run([]byte(`{"execute":"odd"}`)); err != nil { // its event isn't JSON
		t.Error(err)
	}
	answer, err := m.Run([]byte(`{"execute":"device_del"}`))
	if err != nil || string(answer) != `{"return":{},"id":"libvirt-7"}` {
		t.Errorf("%q, %v", answer, err)
	}
	if e := <-events; e.Event != "DEVICE_DELETED" || e.Data["device"] != "gpu" {
		t.Errorf("%+v", e)
	}
	if _, err := m.Run([]byte(`{"execute":"fly"}`)); err == nil ||
		err.Error() != "no command fly" {
		t.Error(err)
	}
	if err := m.Disconnect(); err != nil {
		t.Error(err)
	}
	if _, open := <-events; open {
		t.Error("there are events of a connection that has ended")
	}
	if _, err := m.Run([]byte(`{}`)); err == nil {
		t.Error("it runs commands without a connection")
	}
}

// TestConnectSaysWhy: each way in which a domain can't be reached has a line that names the fix.
func TestConnectSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		name, uri, domain string
		id                int32
		refuses           map[uint32]libvirtError
		want              string
	}{
		{"no such domain", Session, "other", 1, nil, "virsh list --all"},
		{"not running", Session, name, -1, nil, "virsh start training"},
		{"no permission to open", Session, name, 1,
			map[uint32]libvirtError{open: {45, "authentication failed"}}, "of the group libvirt"},
		{"no permission to look", Session, name, 1,
			map[uint32]libvirtError{lookup: {88, "access denied"}}, "of the group libvirt"},
		{"another fault", Session, name, 1,
			map[uint32]libvirtError{lookup: {1, "internal error"}}, "internal error"},
		{"another host", "qemu+ssh://there/system", name, 1, nil, "want " + System},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeDaemon{t: t, id: tt.id, refuses: tt.refuses}
			f.listen()
			_, err := Connect(t.Context(), tt.uri, tt.domain)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestNoDaemon: none at all, one that this user may not speak to, and one that says nothing.
func TestNoDaemon(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	_, err := Connect(t.Context(), Session, name)
	if err == nil || !strings.Contains(err.Error(), "systemctl start libvirtd") {
		t.Error(err)
	}
	f := &fakeDaemon{t: t}
	f.listen()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Connect(ctx, Session, name); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if os.Getuid() != 0 { // root may do all
		dir := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "libvirt")
		if err := os.Chmod(filepath.Join(dir, "libvirt-sock"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err = Connect(t.Context(), Session, name); err == nil ||
			!strings.Contains(err.Error(), "of the group libvirt") {
			t.Error(err)
		}
	}
}

func TestDefaultURI(t *testing.T) {
	t.Setenv("LIBVIRT_DEFAULT_URI", "")
	want := Session
	if os.Geteuid() == 0 {
		want = System
	}
	if got := DefaultURI(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	t.Setenv("LIBVIRT_DEFAULT_URI", Session)
	if got := DefaultURI(); got != Session {
		t.Errorf("%s, which the environment doesn't say", got)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	all, err := sockets(Session)
	if err != nil || !strings.HasPrefix(all[0], "/run/user/") {
		t.Errorf("%v, %v", all, err)
	}
	if all, err = sockets(System); err != nil || all[1] != "/run/libvirt/libvirt-sock" {
		t.Errorf("%v, %v", all, err)
	}
}
