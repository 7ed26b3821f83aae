// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// fakeQEMU answers QMP as QEMU does, as far as attach and detach go.
type fakeQEMU struct {
	t      *testing.T
	socket string
	shared bool
	stuck  bool              // the guest never lets go of a device
	deaf   int               // how many more requests for a device the guest ignores
	asked  func()            // a guest that is stuck was asked for its device
	refuse map[string]string // commands that fail, and what QEMU says

	mu       sync.Mutex
	busy     bool                      // somebody else is connected; guarded by mu
	version  Version                   // guarded by mu
	devices  map[string]map[string]any // guarded by mu
	chardevs map[string]bool           // guarded by mu
	objects  map[string]map[string]any // guarded by mu
	anon     map[string]map[string]any // devices without an id; guarded by mu
	ports    map[string]bool           // whether something is in a PCIe port; guarded by mu
	dead     map[string]bool           // chardevs whose other end is gone; guarded by mu
	commands []string                  // guarded by mu

	migrated  string   // to where; guarded by mu
	migration []string // its states, of which the last one stays; guarded by mu
}

func newFake(t *testing.T) *fakeQEMU {
	f := &fakeQEMU{
		t: t, socket: filepath.Join(t.TempDir(), "qmp"), version: Version{11, 1, 3}, shared: true,
		refuse: map[string]string{}, devices: map[string]map[string]any{},
		chardevs: map[string]bool{}, objects: map[string]map[string]any{},
		anon: map[string]map[string]any{}, dead: map[string]bool{},
	}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

type fakeCommand struct {
	Execute   string
	Arguments map[string]any
}

func (f *fakeQEMU) setVersion(v Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version = v
}

func (f *fakeQEMU) serve(c net.Conn) {
	defer c.Close()
	f.mu.Lock()
	v, busy := f.version, f.busy
	f.mu.Unlock()
	if busy {
		io.Copy(io.Discard, c)
		return
	}
	fmt.Fprintf(c, `{"QMP":{"version":{"qemu":{"micro":%d,"minor":%d,"major":%d},"package":""},`+
		`"capabilities":["oob"]}}`+"\n", v.Micro, v.Minor, v.Major)
	d := json.NewDecoder(c)
	for {
		var cmd fakeCommand
		if d.Decode(&cmd) != nil {
			return
		}
		f.answer(c, cmd)
	}
}

func (f *fakeQEMU) answer(c net.Conn, cmd fakeCommand) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands = append(f.commands, cmd.Execute)
	text, refused := f.refuse[cmd.Execute]
	if !refused {
		text, refused = f.fails(cmd)
	}
	if refused {
		fmt.Fprintf(c, `{"error":{"class":"GenericError","desc":%q}}`+"\n", text)
		return
	}
	reply, _ := json.Marshal(map[string]any{"return": f.do(cmd)})
	fmt.Fprintf(c, "%s\n", reply)
	if cmd.Execute == "device_del" && f.stuck && f.asked != nil {
		f.asked()
	}
	if cmd.Execute == "device_del" && f.deaf > 0 {
		f.deaf--
		return
	}
	if cmd.Execute == "device_del" && !f.stuck {
		id := cmd.Arguments["id"].(string)
		delete(f.devices, id)
		fmt.Fprintf(c,
			`{"event":"DEVICE_DELETED","data":{"path":"/machine/peripheral/%s/virtio-backend"},`+
				`"timestamp":{"seconds":1,"microseconds":1}}`+"\n", id)
		fmt.Fprintf(c,
			`{"event":"DEVICE_DELETED","data":{"device":%q,"path":"/machine/peripheral/%s"},`+
				`"timestamp":{"seconds":1,"microseconds":2}}`+"\n", id, id)
	}
}

// fails tells what QEMU says of a chardev that is there already, or still in use.
func (f *fakeQEMU) fails(cmd fakeCommand) (string, bool) {
	id, _ := cmd.Arguments["id"].(string)
	switch cmd.Execute {
	case "chardev-add":
		return "Chardev with id '" + id + "' already exists", f.chardevs[id]
	case "chardev-remove":
		for _, d := range f.devices {
			if d["chardev"] == id {
				return "Chardev '" + id + "' is busy", true
			}
		}
		return "Chardev '" + id + "' not found", !f.chardevs[id]
	}
	return "", false
}

// in are the devices at a path of QEMU's tree.
func (f *fakeQEMU) in(path string) map[string]map[string]any {
	if path == "/machine/peripheral-anon" {
		return f.anon
	}
	if path != peripherals {
		return nil
	}
	return f.devices
}

func (f *fakeQEMU) do(cmd fakeCommand) any {
	id, _ := cmd.Arguments["id"].(string)
	switch cmd.Execute {
	case "qom-list":
		list := []map[string]string{{"name": "type", "type": "string"}}
		path := cmd.Arguments["path"].(string)
		if f.ports[filepath.Base(path)] {
			list = append(list, map[string]string{"name": "child[0]", "type": "link<x>"})
		}
		for id := range f.ports {
			if path == peripherals {
				list = append(list, map[string]string{"name": id, "type": "child<pcie-root-port>"})
			}
		}
		for id, d := range f.in(path) {
			list = append(list,
				map[string]string{"name": id, "type": fmt.Sprintf("child<%s>", d["driver"])})
		}
		return list
	case "qom-get":
		path := cmd.Arguments["path"].(string)
		dir, name := filepath.Split(path)
		return f.in(filepath.Clean(dir))[name][cmd.Arguments["property"].(string)]
	case "query-chardev":
		list := []map[string]any{{"label": "serial", "filename": "stdio", "frontend-open": true}}
		for id := range f.chardevs {
			filename := "unix:/run/x"
			if f.dead[id] {
				filename = "disconnected:" + filename
			}
			list = append(list, map[string]any{"label": id, "filename": filename})
		}
		return list
	case "query-memdev":
		return []map[string]any{{"id": "mem", "size": 1 << 30, "share": f.shared}}
	case "chardev-add":
		f.chardevs[id] = true
	case "chardev-remove":
		delete(f.chardevs, id)
	case "object-add":
		f.objects[id] = cmd.Arguments
	case "object-del":
		delete(f.objects, id)
	case "device_add":
		f.devices[id] = cmd.Arguments
	case "migrate":
		f.migrated, _ = cmd.Arguments["uri"].(string)
	case "query-migrate":
		status := f.migration[0]
		f.migration = f.migration[min(1, len(f.migration)-1):]
		return map[string]string{"status": status, "error-desc": "No space left"}
	}
	return map[string]any{}
}
