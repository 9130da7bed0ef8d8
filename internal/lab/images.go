package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The lab's images. EngineImage has the stand-in in the place of SGLang and
// vLLM, and the real sglang-router, as the real engine's image has both; the
// router images have one real router each; ToolImage only a shell and busybox.
const (
	EngineImage     = "lab/sglang:standin"
	RouterImage     = "lab/router:" + RouterVersion
	VLLMRouterImage = "lab/vllm-router:" + VLLMRouterVersion
	ToolImage       = "lab/tools:1"
)

// Images builds the archive of the lab's images in the cache, if it is not
// there or the stand-in has changed, and returns its path.
func Images() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	sglang, err := RealRouter()
	if err != nil {
		return "", err
	}
	vllm, err := RealVLLMRouter()
	if err != nil {
		return "", err
	}
	standin, err := Standin()
	if err != nil {
		return "", err
	}
	sum, err := hashFile(standin)
	if err != nil {
		return "", err
	}
	unlock, err := lockCache(cache, "images")
	if err != nil {
		return "", err
	}
	defer unlock()
	key := sha256.Sum256([]byte(sum + sglang.site + vllm.site + layout))
	path := filepath.Join(cache, "images-"+hex.EncodeToString(key[:6])+".tar")
	if exists(path) {
		return path, nil
	}
	removeOld(cache, "images-*.tar")
	var failed error
	layer := func(name string, build func(path string) error) string {
		path := filepath.Join(cache, "layer-"+layout+"-"+name+".tar")
		if failed == nil && !exists(path) {
			if failed = build(path + ".new"); failed == nil {
				failed = os.Rename(path+".new", path)
			}
		}
		return path
	}
	base, python := layer("base", baseLayer), layer("python", pythonLayer)
	sglangSite := layer(filepath.Base(sglang.site), func(path string) error { return siteLayer(path, sglang) })
	vllmSite := layer(filepath.Base(vllm.site), func(path string) error { return siteLayer(path, vllm) })
	engine := filepath.Join(cache, "layer-engine.tar")
	if failed == nil {
		failed = standinLayer(engine, standin)
	}
	if failed != nil {
		return "", failed
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return path, WriteArchive(path,
		Image{Ref: ToolImage, Layers: []string{base}, Env: env, Cmd: []string{"sh"}},
		Image{Ref: RouterImage, Layers: []string{base, python, sglangSite}, Env: env, Cmd: []string{"bash"}},
		Image{Ref: VLLMRouterImage, Layers: []string{base, python, vllmSite}, Env: env, Cmd: []string{"bash"}},
		Image{Ref: EngineImage, Layers: []string{base, python, sglangSite, engine}, Env: append(env, "IMAGE_ENV=set"), Cmd: []string{"bash"}})
}

// layout changes when the code that lays out the layers does.
const layout = "2"

// Standin builds the stand-in and returns its path.
func Standin() (string, error) { return cachedBinary("standin", "./internal/standin/cmd/standin") }

// lockCache keeps two processes from making the same thing at once.
func lockCache(cache, name string) (func(), error) {
	f, err := os.OpenFile(filepath.Join(cache, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the lab's cache: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the lab's cache: %w", err)
	}
	return func() { f.Close() }, nil
}

func removeOld(cache, pattern string) {
	old, _ := filepath.Glob(filepath.Join(cache, pattern))
	for _, o := range old {
		_ = os.RemoveAll(o)
	}
}
