// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestSoftGPUIsNoneOfTheHosts(t *testing.T) {
	if gpus, err := takeGPUs(gpuAuto, gpuSoft, 1<<30, nil); gpus != nil || err != nil {
		t.Errorf("the software GPU is one of the host's: %v, %v", gpus, err)
	}
}
