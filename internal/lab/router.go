package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RouterVersion is the release of the real sglang-router that the lab uses.
const RouterVersion = "0.3.2"

// systemPython is the Python that images are made from.
const systemPython = "/usr/bin/python3"

// Router is a real router, installed for the system's Python.
type Router struct {
	// Argv starts its launcher; options follow.
	Argv []string
	// Env is what the launcher needs beside the usual.
	Env []string

	name, site string
}

// RealRouter installs sglang-router with pip into the cache, once.
func RealRouter() (Router, error) {
	return pipRouter("sglang-router", RouterVersion, "sglang_router.launch_router")
}

// VLLMRouterVersion is the release of the real vllm-router that the lab uses.
const VLLMRouterVersion = "0.1.17"

// RealVLLMRouter installs vllm-router with pip into the cache, once.
func RealVLLMRouter() (Router, error) {
	return pipRouter("vllm-router", VLLMRouterVersion, "vllm_router.launch_router")
}

func pipRouter(name, version, module string) (Router, error) {
	cache, err := CacheDir()
	if err != nil {
		return Router{}, err
	}
	out, err := exec.Command(systemPython, "-c", "import sys;print('%d.%d'%sys.version_info[:2])").Output()
	if err != nil {
		return Router{}, fmt.Errorf("find Python for the router: %w", err)
	}
	site := filepath.Join(cache, name+"-"+version+"-py"+strings.TrimSpace(string(out)))
	r := Router{Argv: []string{systemPython, "-m", module}, Env: []string{"PYTHONPATH=" + site}, name: name, site: site}
	unlock, err := lockCache(cache, name)
	if err != nil {
		return Router{}, err
	}
	defer unlock()
	if exists(site) {
		return r, nil
	}
	tmp, err := os.MkdirTemp(cache, "pip-")
	if err != nil {
		return Router{}, err
	}
	defer os.RemoveAll(tmp)
	pip := exec.Command(systemPython, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", tmp, name+"=="+version)
	if out, err := pip.CombinedOutput(); err != nil {
		return Router{}, fmt.Errorf("install %s %s: %w: %s", name, version, err, out)
	}
	return r, os.Rename(tmp, site)
}
