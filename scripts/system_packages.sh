#!/usr/bin/env bash
# Install the requirements of tests that pip does not provide: a headless browser with its driver, Debian's WordNet, and
# documents of Debian packages, which small images omit.
# If they cannot be installed, print a line and exit with 0; the tests that need them are then skipped.
set -euo pipefail

packages="chromium chromium-driver wordnet-base doc-debian"

is_complete() {
  command -v chromedriver > /dev/null && [ -d /usr/share/wordnet ] && [ -d /usr/share/doc/debian ] &&
    for name in chromium chromium-browser google-chrome; do command -v "$name" > /dev/null && return 0; done
  return 1
}

install_them() {
  apt-get -qq -o Acquire::Retries=3 update &&
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 install --yes --no-install-recommends \
      -o Dpkg::Options::="--path-include=/usr/share/doc/*" $packages > /dev/null
}

if is_complete; then
  echo "system packages: all installed"
elif ! command -v apt-get > /dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "system packages: $packages: need apt-get and root; without them their tests are skipped" >&2
elif install_them; then
  echo "system packages: installed $packages"
else
  echo "system packages: apt-get could not install $packages; their tests are skipped" >&2
fi
