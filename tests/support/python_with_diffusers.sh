# Sourced, in the root of the repository. Prints a Python that has torch, diffusers and safetensors: HPPLAN_PYTHON, ours,
# or one that is there; installs ours where there is none (some minutes the first time), and fails where that fails.
python_with_diffusers() {
  local candidate install
  for install in no yes; do
    [ "$install" = no ] || tools/torch_setup --python >&2
    for candidate in "${HPPLAN_PYTHON:-}" .deps/venv/bin/python "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" python3; do
      [ -n "$candidate" ] || continue
      if "$candidate" -c 'import torch, diffusers, safetensors' 2>/dev/null; then
        case $candidate in
          /*) echo "$candidate" ;;
          */*) echo "$PWD/$candidate" ;;
          *) command -v "$candidate" ;;
        esac
        return
      fi
    done
  done
  echo "no Python with torch, diffusers and safetensors, and tools/torch_setup --python did not make one" >&2
  return 1
}
