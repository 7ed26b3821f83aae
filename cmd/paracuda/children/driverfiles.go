// SPDX-License-Identifier: Apache-2.0

package children

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// nvidiaDevice is there where NVIDIA's own kernel modules are. Elsewhere (WSL's /dev/dxg) the
// driver opens other files, which aren't listed here.
const nvidiaDevice = "/dev/nvidiactl"

// isListed says whether the system calls of this host's driver are in our lists.
func isListed() bool {
	_, err := os.Stat(nvidiaDevice)
	return err == nil
}

var (
	timeZone       = []string{"/etc/localtime", "/usr/share/zoneinfo"}
	driverSettings = []string{"/etc/nvidia", "/usr/share/nvidia"}
)

// cacheVariable names the folder where the driver keeps what it has compiled.
const cacheVariable = "CUDA_CACHE_PATH"

// ownCache is that folder if the variable isn't set.
func ownCache(home string) string { return filepath.Join(home, ".nv") }

// DriverFiles are the files that NVIDIA's driver opens once it is loaded: devices for each
// mapping, the host's state when it makes a context, and shared memory for events of other
// processes.
func DriverFiles() sandbox.Files {
	gpus, _ := filepath.Glob("/dev/nvidia[0-9]*")
	return sandbox.Files{
		ReadOnly: slices.Concat([]string{"/proc", "/sys"}, timeZone, driverSettings),
		Devices:  append(gpus, nvidiaDevice, "/dev/nvidia-uvm", "/dev/null", "/dev/zero"),
		Writable: []string{"/dev/shm"},
	}
}

// workerFiles adds the cache of what the driver has compiled.
func workerFiles() sandbox.Files {
	f := DriverFiles()
	cache := cmp.Or(os.Getenv(cacheVariable), ownCache(os.Getenv("HOME")))
	if filepath.IsAbs(cache) && cache != "/" {
		// The driver would make the folder, but in the sandbox it may not. Without it the driver
		// compiles each time.
		_ = os.MkdirAll(cache, 0o700)
		f.Writable = append(f.Writable, cache)
	}
	return f
}
